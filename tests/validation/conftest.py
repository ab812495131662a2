"""Replays in this process, on rollouts made from what a library stores."""

from pathlib import Path

import numpy as np
import pytest

from scenario_lib.execution.tasks import TaskOutcome
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.metrics.voltage import VoltageMeasures
from scenario_lib.simulation.engines import Simulated
from scenario_lib.validation import replay


class StoredRollouts:
    """In place of an engine: what the library stores, so that a replay is equal; `change` adds to OFO's penalties."""

    def __init__(self, record, change: np.ndarray) -> None:
        self.record, self.change = record, change

    def run(self, policy: str) -> Simulated:
        record = self.record
        if policy == "none":
            penalties, integral = record.baseline_voltage_pen_per_step, record.baseline_integral
            times = record.baseline_violation_time_s, record.bl_undervoltage_time_s, record.bl_overvoltage_time_s
        else:
            penalties, integral = record.ofo_voltage_pen_per_step + self.change, record.ofo_integral
            times = record.ofo_violation_time_s, record.ofo_violation_time_s, 0.0
        return Simulated(None, VoltageMeasures(integral, *times, 0.9, 1.0), penalties)


@pytest.fixture
def replays(monkeypatch):
    """Replay in this process on stored rollouts of the library at hand."""

    def use(library: Path, change: dict[int, float] | None = None, of: Path | None = None) -> list[int]:
        stored, ran = ScenarioLibrary(of or library), []
        changes = np.zeros(3600)
        for second, amount in (change or {}).items():
            changes[second] = amount

        def simulator(scenario, *_):
            ran.append(scenario.seed)
            return StoredRollouts(stored.record_for(scenario.seed), changes)

        def run_tasks(function, tasks, options):
            yield from (TaskOutcome(task, function(task)) for task in reversed(tasks))

        monkeypatch.setattr(replay, "simulator", simulator)
        monkeypatch.setattr(replay, "run_tasks", run_tasks)
        return ran

    return use

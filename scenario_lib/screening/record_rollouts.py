"""Both rollouts of a record again, for looking at: arrays instead of verdicts."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scenario_lib.feeders.arguments import as_system, optional
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.library.loader import AnyLibrary, opened
from scenario_lib.library.recipe import located_experiment
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.scenario.model import Scenario
from scenario_lib.screening.tuning import as_screened
from scenario_lib.simulation.assets import Assets, load_assets
from scenario_lib.simulation.engines import COMPILED, REFERENCE, Engine, engine_from_label, prepare, simulator
from scenario_lib.simulation.rollout import Rollout


@dataclass(frozen=True, slots=True, repr=False)
class RecordRollouts:
    """A record's scenario, played without control and under OFO.

    Attributes:
        engine: Label of the engine that played it.
        largest_difference_pu2: Of a penalty from the stored traces (pu^2); 0 if they are equal bit for bit.
    """

    record: ScenarioRecord
    scenario: Scenario
    experiment: Experiment
    assets: Assets
    baseline: Rollout
    ofo: Rollout
    engine: str
    largest_difference_pu2: float

    def __repr__(self) -> str:
        return f"RecordRollouts(seed {self.record.seed} on {self.experiment.name}, engine {self.engine})"


def play_record(
    library: AnyLibrary,
    record: ScenarioRecord | int,
    specs_dir: str | Path | None = None,
    system: str | Path | None = None,
) -> RecordRollouts:
    """Play a record again, on the compiled engine unless that does not model the feeder.

    Args:
        library: Where the record is from: its path, or the opened one.
        record: The record, or its index.
        specs_dir: Spec cache to play on; None means the shipped one.
        system: Experiment file, for a library on a feeder of the user's own.

    Raises:
        InvalidSettingError: The feeder does not ship, and no file is given.
        ReplayError: The scenario that is drawn now is not the one that was screened.
        PowerFlowError: The power flow does not converge.
    """
    library = opened(library)
    record, system = library.own_record(record), optional(as_system)("system", system)
    experiment = located_experiment(library.recipe_of(record), system)
    assets = load_assets(experiment, specs_dir)
    scenario = library.materialize(record)
    engine = _engine(record, experiment, assets)
    simulated = simulator(scenario, as_screened(experiment), assets, engine)
    baseline, ofo = simulated.run("none"), simulated.run("ofo")
    pairs = (
        (baseline.penalties, record.baseline_voltage_pen_per_step),
        (ofo.penalties, record.ofo_voltage_pen_per_step),
    )
    apart = max(float(np.max(np.abs(played - stored))) for played, stored in pairs)
    return RecordRollouts(record, scenario, experiment, assets, baseline.rollout, ofo.rollout, engine.label, apart)


def _engine(record: ScenarioRecord, experiment: Experiment, assets: Assets) -> Engine:
    own = None if record.proof is None else engine_from_label(record.proof.engine)
    compiled = own if own is not None and own.name == COMPILED else Engine()
    return compiled if prepare(experiment, assets, compiled) is None else Engine(REFERENCE)

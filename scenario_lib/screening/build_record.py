"""What a build leaves behind: its recipes and plan, what a library stores of its candidates, and the build log.

A row of the candidates table and the entry of a record are views of a candidate. Their figures are read from it by one
table of columns, by which a stored row becomes a candidate again, as a build would have measured it under other
thresholds. The build log has dates, durations and facts about the machine, apart from the files that are compared.
"""

import datetime
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from scenario_lib._arrays import Floats
from scenario_lib._files import write_json
from scenario_lib.errors import ReplayError
from scenario_lib.feeders.circuit_files import circuit_digest
from scenario_lib.library.candidates import CandidateRow
from scenario_lib.library.layout import BUILD_LOG
from scenario_lib.library.provenance import versions
from scenario_lib.library.recipe import (
    DataDigests,
    Recipe,
    RolloutInputs,
    in_order,
    loosest_thresholds,
    recipe_from_dict,
    to_state,
)
from scenario_lib.library.record import CONTRACT_FIELDS, RecordDigests, ScenarioRecord
from scenario_lib.library.writer import NewLibrary
from scenario_lib.metrics.voltage import VoltageMeasures
from scenario_lib.models.power_traces import training_trace_recipe
from scenario_lib.scenario.model import Scenario, resolve, scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.screening.candidate import Candidate, MeasurePlan, StageFailure
from scenario_lib.screening.criteria import KINDS, Reason, ScreeningCriteria, margins
from scenario_lib.screening.select import Stratum
from scenario_lib.simulation.assets import assets_digest


def recipe_of(plan: MeasurePlan, stratum: str | None = None) -> Recipe:
    """The recipe of a build, or of one stratum of it.

    It is as a library gives it back: whole numbers that stand for floats are floats there.
    """
    trace = training_trace_recipe()
    data = DataDigests(
        circuit=circuit_digest(Path(plan.experiment.feeder.circuit)),
        models=assets_digest(plan.experiment.models, plan.specs_dir),
        training_trace=trace.digest,
        training_trace_params=trace.params,
    )
    return recipe_from_dict(Recipe(plan.experiment, plan.settings, data, stratum).to_dict(), plan.experiment.name)


def plan_record(plan: MeasurePlan, recipe: Recipe) -> dict[str, Any]:
    """All that decides a candidate's figures; two builds with equal records measure equal candidates."""
    return {
        "recipe": recipe.to_dict(),
        "screening": plan.criteria.to_dict(),
        **({} if plan.kinds == KINDS else {"kinds": list(plan.kinds)}),
        "full_table": plan.full_table,
        "engine": plan.engine.label,
        "versions": versions(),
    }


def build_record(strata: Sequence[Stratum]) -> dict[str, Any]:
    """The same for a whole build: that of its one plan, or those of all strata with where their seeds begin."""
    records = [plan_record(stratum.plan, stratum.recipe) for stratum in strata]
    if strata[0].name is None:
        return records[0]
    # Without its first seed a journal could be resumed under strata that deal the seeds otherwise.
    parts = {
        str(stratum.name): {**record, "first_seed": stratum.request.seed_order()[0]}
        for stratum, record in zip(strata, records, strict=True)
    }
    return {"strata": list(parts), "stratum": parts, "versions": versions()}


# Columns of the candidates table that are a candidate's own, and where: both ways of reading go by this table.
# All other columns follow from these and the thresholds.
_COLUMNS = {
    "seed": "seed",
    "scenario_digest": "scenario_digest",
    "pv_scale": "pv_scale",
    "load_scale": "load_scale",
    "baseline_integral": "baseline.integral_pu_s",
    "baseline_violation_time_s": "baseline.violation_time_s",
    "bl_undervoltage_time_s": "baseline.undervoltage_time_s",
    "bl_overvoltage_time_s": "baseline.overvoltage_time_s",
    "baseline_worst_v_min_pu": "baseline.worst_v_min_pu",
    "baseline_worst_v_max_pu": "baseline.worst_v_max_pu",
    "ofo_integral": "ofo.integral_pu_s",
    "ofo_violation_time_s": "ofo.violation_time_s",
    "ofo_undervoltage_time_s": "ofo.undervoltage_time_s",
    "ofo_overvoltage_time_s": "ofo.overvoltage_time_s",
    "ofo_worst_v_min_pu": "ofo.worst_v_min_pu",
    "ofo_worst_v_max_pu": "ofo.worst_v_max_pu",
    "ofo_always_min": "ofo_always_min",
    "failed_stage": "failure.stage",
    "failed_step": "failure.step",
    "failure": "failure.message",
    "reason": "reason",
}
_FOLLOWING = ("accepted", "kind", "ofo_ran", "recovery_frac")
_PARTS = {"baseline": VoltageMeasures, "ofo": VoltageMeasures, "failure": StageFailure}
_MAY_BE_MISSING = "step"


def candidate_row(candidate: Candidate, criteria: ScreeningCriteria, recipe: str, engine: str) -> CandidateRow:
    """The row of a judged candidate.

    Args:
        candidate: With its verdict.
        criteria: The thresholds that it was judged by.
        recipe: Identifier of its recipe.
        engine: Label of the engine that it was measured on.
    """
    start, end = candidate.control_window(criteria)
    distances = asdict(margins(candidate.baseline, candidate.ofo, criteria))
    figures = {column: _figure(candidate, place) for column, place in _COLUMNS.items()}
    return CandidateRow(
        **{**figures, "reason": str(candidate.reason)},
        **{name: getattr(candidate, name) for name in _FOLLOWING},
        **{f"{name}_margin": distance for name, distance in distances.items()},
        t_control_start=start,
        t_control_end=end,
        recipe=recipe,
        engine=engine,
    )


def _figure(candidate: Candidate, place: str) -> Any:
    """What a candidate has at a place such as "baseline.integral_pu_s"; None where that rollout did not run."""
    part, _, name = place.rpartition(".")
    holder = getattr(candidate, part) if part else candidate
    return None if holder is None else getattr(holder, name)


def candidate_of_row(row: CandidateRow, digests: RecordDigests | None, criteria: ScreeningCriteria) -> Candidate:
    """A stored candidate, with the verdict that it has there.

    Args:
        row: Of the candidates table.
        digests: Those of its record, if it was accepted; otherwise its traces were not kept.
        criteria: Thresholds with the same buffers of the control window; where the window was cut at an end of the
            hour, the candidate's violations end at another second that gives it again.
    """
    own: dict[str, dict[str, Any]] = {"": {}, **{part: {} for part in _PARTS}}
    for column, place in _COLUMNS.items():
        part, _, name = place.rpartition(".")
        own[part][name] = getattr(row, column)
    reason = Reason(row.reason)
    own["failure"]["reason"] = reason
    parts: dict[str, Any] = {part: None if _lacks(own[part]) else kind(**own[part]) for part, kind in _PARTS.items()}
    start, end = row.t_control_start, row.t_control_end
    return Candidate(
        **{**own[""], "reason": reason},
        **parts,
        first_violation_s=None if start is None else start + criteria.window_before_s,
        last_violation_s=None if end is None else end - criteria.window_after_s,
        trace_digests=None if digests is None else (digests.baseline_digest, digests.ofo_digest),
    )


def _lacks(figures: Mapping[str, Any]) -> bool:
    return any(value is None for name, value in figures.items() if name != _MAY_BE_MISSING)


_BY_CHANCE = (Reason.TIMEOUT, Reason.WORKER_DIED)


def _no_traces(seed: int) -> tuple[Floats, Floats]:
    raise LookupError(f"no traces of seed {seed} are known")


@dataclass(frozen=True, slots=True)
class EarlierResults:
    """Candidates that were measured before a build begins.

    Attributes:
        candidates: By seed; without digests where there are no traces.
        traces: The (baseline, OFO) penalty traces of a seed whose candidate has their digests.
    """

    candidates: Mapping[int, Candidate] = field(default_factory=dict)
    traces: Callable[[int], tuple[Floats, Floats]] = _no_traces


NO_EARLIER_RESULTS = EarlierResults()


def library_of_strata(strata: Sequence[Stratum], versions: dict[str, str]) -> NewLibrary:
    """The library of all strata, which are screened, in the order of seeds.

    Raises:
        ReplayError: The scenario of an accepted candidate, drawn here, is not the one that its worker simulated.
    """
    rows, records, resolved = [], [], []
    views = [_StratumView(stratum) for stratum in strata]
    pairs = [(candidate, view) for view in views for candidate in view.stratum.candidates]
    for candidate, view in sorted(pairs, key=lambda pair: pair[0].seed):
        rows.append(view.row(candidate))
        if candidate.accepted:
            scenario = view.scenario(candidate)
            records.append(view.record(candidate, rows[-1], scenario))
            resolved.append(resolve(scenario))
    entries = in_order(stratum.entry for stratum in strata)
    return NewLibrary(
        recipes=tuple(stratum.recipe for stratum in strata),
        records=tuple(records),
        resolved=tuple(resolved),
        candidates=rows,
        screening=loosest_thresholds(entries),
        versions=versions,
        reproducible=not any(candidate.reason in _BY_CHANCE for candidate, _ in pairs),
        strata=to_state(entries),
    )


class _StratumView:
    """What a library stores of the candidates of one stratum, with what they share computed once."""

    def __init__(self, stratum: Stratum) -> None:
        self.stratum = stratum
        self._plan = stratum.plan
        self._recipe, self._engine = stratum.recipe.id, stratum.plan.engine.label
        self._inputs = RolloutInputs(stratum.recipe)

    def row(self, candidate: Candidate) -> CandidateRow:
        return candidate_row(candidate, self._plan.criteria, self._recipe, self._engine)

    def scenario(self, candidate: Candidate) -> Scenario:
        """The scenario of a candidate, drawn here."""
        plan, seed = self._plan, candidate.seed
        scenario = randomize_scenario(seed, experiment=plan.experiment, settings=plan.settings)
        if scenario_digest(scenario) != candidate.scenario_digest:
            raise ReplayError(f"seed {seed} draws another scenario here than in its worker; are versions mixed?")
        return scenario

    def record(self, candidate: Candidate, row: CandidateRow, scenario: Scenario) -> ScenarioRecord:
        """The record of an accepted candidate: figures as in its row, under the names that the contract has too."""
        if candidate.trace_digests is None or candidate.scenario_digest is None:
            raise LookupError(f"seed {candidate.seed} was accepted without figures or traces")
        shared = {name: getattr(row, name) for name in CONTRACT_FIELDS if name in CandidateRow.__slots__}
        overlay, digest = scenario.params.training_overlay, candidate.scenario_digest
        inputs = self._inputs.digest(self._engine, digest, scenario.training_run is not None)
        return ScenarioRecord(
            **shared,
            training_overlay=None if overlay is None else overlay.to_dict(),
            digests=RecordDigests(self._recipe, self._engine, digest, *candidate.trace_digests, inputs),
        )


@dataclass(slots=True)
class BuildLog:
    """Collected during a build.

    Attributes:
        seconds_by_seed: Time each candidate took in its worker (s).
        resumed: Candidates that an earlier, unfinished run had measured.
        by_worker: Candidates by the cluster's worker, "host:process", that measured them; none on this machine.
    """

    started: str = field(default_factory=lambda: _now())
    jobs: int = 1
    resumed: int = 0
    seconds_by_seed: dict[int, float] = field(default_factory=dict)
    by_worker: dict[str, int] = field(default_factory=dict)

    @property
    def workers_text(self) -> str:
        """How many workers measured, and on a cluster on how many hosts."""
        if not self.by_worker:
            return f"{self.jobs} worker(s)"
        hosts = {worker.rpartition(":")[0] for worker in self.by_worker}
        return f"{len(self.by_worker)} worker(s) on {len(hosts)} host(s)"

    @property
    def mean_seconds(self) -> float:
        """Mean time of a candidate in its worker (s)."""
        return statistics.fmean(self.seconds_by_seed.values()) if self.seconds_by_seed else 0.0

    def write(self, folder: Path) -> None:
        """Write the log into a library's directory."""
        seeds = {str(seed): round(seconds, 3) for seed, seconds in sorted(self.seconds_by_seed.items())}
        write_json(
            folder / BUILD_LOG, {**asdict(self), "seconds_by_seed": seeds, "finished": _now(), "machine": machine()}
        )


def machine() -> dict[str, Any]:
    """Facts about this machine; the last bits of a rollout depend on its processor's features and BLAS kernel."""
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cpu_features": sorted([*simd.get("baseline", []), *simd.get("found", [])]),
        "blas": _blas_kernels(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }


def _blas_kernels() -> list[str]:
    """Kernels that the loaded BLAS libraries say they chose; empty if none does, or without threadpoolctl."""
    if find_spec("threadpoolctl") is None:
        return []
    from threadpoolctl import threadpool_info

    loaded = [library for library in threadpool_info() if library.get("architecture")]
    return sorted({f"{library['internal_api']} {library['architecture']}" for library in loaded})


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")

"""Where a build's figures come from: its recipe with digests of all data that rollouts read.

From screened strata to what a library's files hold.

The build log: dates, durations and facts about the machine, apart from the files that are compared.
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
from scenario_lib.feeders.circuit_files import circuit_digest
from scenario_lib.library.layout import BUILD_LOG
from scenario_lib.library.provenance import versions
from scenario_lib.library.recipe import DataDigests, Recipe, in_order, loosest_thresholds, recipe_from_dict, to_state
from scenario_lib.library.writer import NewLibrary
from scenario_lib.models.power_traces import training_trace_recipe
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.candidate_rows import candidate_row, new_record
from scenario_lib.screening.criteria import KINDS, Reason
from scenario_lib.screening.journal import JournalLine
from scenario_lib.screening.select import PlannedStratum, Screened
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


def build_record(strata: Sequence[PlannedStratum], recipes: Sequence[Recipe]) -> dict[str, Any]:
    """The same for a whole build: that of its one plan, or those of all strata with where their seeds begin."""
    records = [plan_record(stratum.plan, recipe) for stratum, recipe in zip(strata, recipes, strict=True)]
    if strata[0].name is None:
        return records[0]
    # Without its first seed a journal could be resumed under strata that deal the seeds otherwise.
    parts = {
        str(stratum.name): {**record, "first_seed": stratum.request.seed_order()[0]}
        for stratum, record in zip(strata, records, strict=True)
    }
    return {"strata": list(parts), "stratum": parts, "versions": versions()}


_BY_CHANCE = (Reason.TIMEOUT, Reason.WORKER_DIED)


def _no_traces(seed: int) -> tuple[Floats, Floats]:
    raise LookupError(f"no traces of seed {seed} are known")


@dataclass(frozen=True, slots=True)
class EarlierResults:
    """Candidates whose figures are known before a build begins.

    Attributes:
        lines: By seed; without digests where there are no traces.
        traces: The (baseline, OFO) penalty traces of a seed whose line has their digests.
    """

    lines: Mapping[int, JournalLine] = field(default_factory=dict)
    traces: Callable[[int], tuple[Floats, Floats]] = _no_traces


NO_EARLIER_RESULTS = EarlierResults()


def library_of_strata(
    screened: Sequence[Screened], lines: Mapping[int, JournalLine], versions: dict[str, str]
) -> NewLibrary:
    """The library of all strata, in the order of seeds.

    Raises:
        ReplayError: The scenario of an accepted candidate, drawn here, is not the one that its worker simulated.
    """
    every = sorted(
        ((choice, part) for part in screened for choice in part.chosen), key=lambda pair: pair[0].measured.seed
    )
    strata = in_order(part.entry for part in screened)
    return NewLibrary(
        recipes=tuple(part.recipe for part in screened),
        records=tuple(
            new_record(choice, lines[choice.measured.seed], part) for choice, part in every if choice.accepted
        ),
        candidates=[candidate_row(choice, part) for choice, part in every],
        screening=loosest_thresholds(strata),
        versions=versions,
        reproducible=not any(choice.reason in _BY_CHANCE for choice, _ in every),
        strata=to_state(strata),
    )


@dataclass(slots=True)
class BuildLog:
    """Collected during a build.

    Attributes:
        seconds_by_seed: Time each candidate took in its worker (s).
        resumed: Candidates that an earlier, unfinished run had measured.
    """

    started: str = field(default_factory=lambda: _now())
    jobs: int = 1
    resumed: int = 0
    seconds_by_seed: dict[int, float] = field(default_factory=dict)

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

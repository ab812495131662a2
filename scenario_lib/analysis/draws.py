"""All candidates of a library as columns of numbers, for figures and statistics.

What was drawn for every candidate, accepted or not, so that a bias of the screening can be seen.

Scenarios are drawn again from their seeds, which takes about a millisecond each and needs no simulation.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from scenario_lib._arrays import Floats
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.scenario.model import Scenario, ScenarioPower
from scenario_lib.scenario.profiles import SampledLoad, SampledPV
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.screening.criteria import Reason

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class CandidateColumns:
    """One entry a candidate, in seed order; NaN where a figure was not measured.

    Attributes:
        reason: Values of `Reason`, as texts.
        kind: "under", "over", "mixed", or "" without a violation.
        recovery_frac: Part of the baseline's integral that OFO removes.
        window_start_s, window_end_s: Control window (s).
    """

    seed: NDArray[np.int64]
    accepted: NDArray[np.bool_]
    reason: NDArray[np.str_]
    kind: NDArray[np.str_]
    baseline_integral_pu_s: Floats
    recovery_frac: Floats
    window_start_s: Floats
    window_end_s: Floats

    def __len__(self) -> int:
        return len(self.seed)

    @property
    def window_length_s(self) -> Floats:
        """Length of the control window (s)."""
        return self.window_end_s - self.window_start_s


def columns_of_table(table: "pa.Table") -> CandidateColumns:
    """The columns of a library's candidates table."""

    def texts(name: str) -> NDArray[np.str_]:
        return np.array([value or "" for value in table.column(name).to_pylist()], dtype=np.str_)

    def numbers(name: str) -> Floats:
        return np.array([np.nan if value is None else value for value in table.column(name).to_pylist()], float)

    return CandidateColumns(
        seed=np.array(table.column("seed").to_pylist(), np.int64),
        accepted=np.array(table.column("accepted").to_pylist(), np.bool_),
        reason=texts("reason"),
        kind=texts("kind"),
        baseline_integral_pu_s=numbers("baseline_integral"),
        recovery_frac=numbers("recovery_frac"),
        window_start_s=numbers("t_control_start"),
        window_end_s=numbers("t_control_end"),
    )


def columns_of_records(records: Sequence[ScenarioRecord]) -> CandidateColumns:
    """The same of records alone, for a library without a candidates table: all of them were accepted."""

    def numbers(name: str) -> Any:
        return np.array([getattr(record, name) for record in records], float)

    return CandidateColumns(
        seed=np.array([record.seed for record in records], np.int64),
        accepted=np.ones(len(records), np.bool_),
        reason=np.array([str(Reason.ACCEPTED)] * len(records), dtype=np.str_),
        kind=np.array([record.kind for record in records], dtype=np.str_),
        baseline_integral_pu_s=numbers("baseline_integral"),
        recovery_frac=numbers("recovery_frac"),
        window_start_s=numbers("t_control_start"),
        window_end_s=numbers("t_control_end"),
    )


_MOST_CANDIDATES = 5000
"""From larger tables, this many candidates are drawn again, evenly spread."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Drawn parameters of candidates.

    Attributes:
        accepted: Of each candidate, shape (n,).
        values: Parameter and unit to its values, shape (n,); NaN where a scenario has none.
        changed: Candidates that are left out because something else is drawn now than when they were screened.
        total: Candidates of the table that were drawn at all when it was made.
    """

    accepted: NDArray[np.bool_]
    values: dict[str, Floats]
    changed: int
    total: int

    def varying(self) -> dict[str, Floats]:
        """Parameters that differ between candidates."""
        return {name: values for name, values in self.values.items() if _varies(values)}


def _varies(values: Floats) -> bool:
    known = values[np.isfinite(values)]
    return known.size > 0 and bool(np.ptp(known) > 1e-12 * np.abs(known).max())


def draws_of_table(table: Any, recipes: Mapping[str, Recipe]) -> Draws:
    """Draw the candidates of a table again.

    Args:
        table: A library's candidates table (Arrow).
        recipes: The library's recipes by identifier.
    """
    names = ("seed", "recipe", "accepted", "pv_scale", "load_scale")
    rows = [row for row in table.select(names).to_pylist() if row["pv_scale"] is not None and row["recipe"] in recipes]
    spread = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MOST_CANDIDATES)).round().astype(int))
    accepted, drawn, changed = [], [], 0
    for row in (rows[index] for index in spread.tolist()):
        recipe = recipes[row["recipe"]]
        scenario = randomize_scenario(row["seed"], experiment=recipe.experiment, settings=recipe.settings)
        if (scenario.params.pv_scale, scenario.params.load_scale) != (row["pv_scale"], row["load_scale"]):
            changed += 1
            continue
        accepted.append(row["accepted"])
        drawn.append({name: read(scenario) for name, read in PARAMETERS.items()})
    values = {name: np.array([numbers[name] for numbers in drawn], float) for name in PARAMETERS}
    return Draws(np.array(accepted, np.bool_), values, changed, len(rows))


def largest_gap(first: Floats, second: Floats) -> float:
    """Largest distance between two empirical distribution functions (the Kolmogorov-Smirnov statistic)."""
    from scipy.stats import ks_2samp

    return float(ks_2samp(first, second, method="asymp").statistic)


def gap_by_chance(n: int, m: int) -> float:
    """The gap that two samples of one distribution exceed in one case of twenty, as far as they are large."""
    from scipy.special import kolmogi

    return float(kolmogi(0.05) * np.sqrt((n + m) / (n * m)))


def _overlay(read: Callable[[Any], float]) -> Callable[[Scenario], float]:
    return lambda scenario: np.nan if scenario.training_run is None else read(scenario.training_run)


def _ramps(scenario: Scenario) -> list[Any]:
    return [ramp for site in scenario.sites for model in site.models for ramp in model.ramps]


def _first_ramp_s(scenario: Scenario) -> float:
    return min((ramp.t_start_s for ramp in _ramps(scenario)), default=np.nan)


def _ramp_duration_s(scenario: Scenario) -> float:
    durations = [ramp.t_end_s - ramp.t_start_s for ramp in _ramps(scenario)]
    return float(np.mean(durations)) if durations else np.nan


def _replicas_left(scenario: Scenario) -> float:
    models = [model for site in scenario.sites for model in site.models if model.replicas]
    last = [model.ramps[-1].target_replicas if model.ramps else model.replicas for model in models]
    return float(np.mean([end / model.replicas for end, model in zip(last, models, strict=True)]))


def _initial_batch(scenario: Scenario) -> float:
    sizes = [model.initial_batch_size for site in scenario.sites for model in site.models]
    return float(np.exp2(np.mean(np.log2(sizes))))


def _mean_kw(elements: tuple[ScenarioPower, ...]) -> float:
    """Mean of sampled profiles; NaN where profiles follow from the scale alone."""
    if not any(isinstance(element.profile, SampledPV | SampledLoad) for element in elements):
        return np.nan
    times_s = np.arange(0.0, DURATION_S, 60.0)
    return float(sum(np.mean(element.kw_per_phase(times_s)) for element in elements))


def _clouds(scenario: Scenario) -> float:
    profiles = [system.profile for system in scenario.pv_systems if isinstance(system.profile, SampledPV)]
    return float(sum(len(profile.clouds) for profile in profiles)) if profiles else np.nan


def _load_noise(scenario: Scenario) -> float:
    amplitudes = [load.profile.noise.amp for load in scenario.tvl if isinstance(load.profile, SampledLoad)]
    return float(np.mean(amplitudes)) if amplitudes else np.nan


PARAMETERS: dict[str, Callable[[Scenario], float]] = {
    "PV scale": lambda scenario: scenario.params.pv_scale,
    "load scale": lambda scenario: scenario.params.load_scale,
    "mean PV (kW per phase)": lambda scenario: _mean_kw(scenario.pv_systems),
    "mean load (kW per phase)": lambda scenario: _mean_kw(scenario.tvl),
    "PV time shift (s)": lambda scenario: scenario.params.pv_t_shift_s,
    "load time shift (s)": lambda scenario: scenario.params.tvl_t_shift_s,
    "PV time warp": lambda scenario: scenario.params.pv_warp,
    "load time warp": lambda scenario: scenario.params.tvl_warp,
    "PV clouds": _clouds,
    "load noise": _load_noise,
    "training GPUs": _overlay(lambda job: float(job.n_gpus)),
    "training peak (W per GPU)": _overlay(lambda job: job.target_peak_w_per_gpu),
    "training start (s)": _overlay(lambda job: job.t_start_s),
    "training duration (s)": _overlay(lambda job: job.t_end_s - job.t_start_s),
    "ramps": lambda scenario: float(len(_ramps(scenario))),
    "first ramp starts (s)": _first_ramp_s,
    "mean ramp duration (s)": _ramp_duration_s,
    "replicas at the end, of the first": _replicas_left,
    "initial batch, geometric mean": _initial_batch,
}
"""Parameters that are compared, each one number a scenario; NaN where the scenario has none."""

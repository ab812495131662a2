"""Validate a library: files unchanged, every record drawn again, rollouts replayed and compared bit for bit."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from itertools import compress
from pathlib import Path

import numpy as np

from scenario_lib.errors import LibraryError, ScenarioLibError
from scenario_lib.execution.tasks import RunOptions, run_tasks
from scenario_lib.feeders.canonical import file_digest, first_difference
from scenario_lib.feeders.catalogue import load_experiment
from scenario_lib.feeders.circuit_files import circuit_digest
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.library.candidates import read_candidates
from scenario_lib.library.files import CANDIDATES, DIGESTED, METADATA
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.library.traces import Array
from scenario_lib.library.versions import versions
from scenario_lib.metrics.voltage import penalty_trace
from scenario_lib.scenario.model import Scenario
from scenario_lib.simulation.assets import assets_digest, load_assets
from scenario_lib.simulation.rollout import run_rollout

TOLERANCE_PU2 = 1e-10
"""Largest difference of a penalty (pu^2) that counts as equal within tolerance: what two processors may differ by."""


class Grade(IntEnum):
    """Verdict on a library; the values are the exit codes of `scenario-lib validate`."""

    HELD = 0
    DIFFERS = 1
    NOT_VERIFIABLE = 3
    WITHIN_TOLERANCE = 4


# From good to bad: the grade of a library is the worst of its findings.
_SEVERITY = (Grade.HELD, Grade.WITHIN_TOLERANCE, Grade.NOT_VERIFIABLE, Grade.DIFFERS)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked and did not simply hold; with grade HELD, a note that may explain others."""

    grade: Grade
    message: str


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How rollouts are replayed.

    Attributes:
        records: How many records, spread over the library; 0 for none, None for all.
        specs_dir: Spec cache to replay on; None means the shipped one.
        system: Experiment file, for a library on a feeder of the user's own.
    """

    records: int | None = 0
    specs_dir: Path | None = None
    system: str | None = None
    run: RunOptions = RunOptions()


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """What a validation found.

    Attributes:
        records: Records in the library.
        replayed: Records whose rollouts were run again.
    """

    path: Path
    records: int
    replayed: int
    findings: tuple[Finding, ...]

    @property
    def grade(self) -> Grade:
        """The worst of the findings."""
        return max((finding.grade for finding in self.findings), key=_SEVERITY.index, default=Grade.HELD)


def validate_library(path: Path, options: ReplayOptions) -> ValidationReport:
    """Check files, draws and, if asked for, rollouts.

    Raises:
        LibraryError: The library cannot even be opened.
    """
    library = ScenarioLibrary(path)
    findings = [*_check_files(library), *_check_draws(library)]
    if not library.contents.digests and options.records is not None:
        text = f"{library.path / METADATA}: has no digests, so only a replay of all records can verify it"
        findings.append(Finding(Grade.NOT_VERIFIABLE, text))
    replayed: list[ScenarioRecord] = []
    # Rollouts of scenarios that are not the screened ones would prove nothing.
    if not any(finding.grade is Grade.DIFFERS for finding in findings):
        replayed = _spread(library, options.records)
        findings += _check_replays(library, replayed, options)
    return ValidationReport(library.path, len(library), len(replayed), tuple(findings))


def _check_files(library: ScenarioLibrary) -> Iterator[Finding]:
    digests = library.contents.digests
    if not digests:
        return
    for name in DIGESTED:
        file = library.path / name
        if not file.is_file():
            yield Finding(Grade.DIFFERS, f"{file}: missing")
        elif file_digest(file) != digests.get(name):
            yield Finding(Grade.DIFFERS, f"{file}: is not the file that was written (its digest differs)")
    try:
        rows = read_candidates(library.path / CANDIDATES)
        seeds, accepted = (rows.column(name).to_pylist() for name in ("seed", "accepted"))
        if list(compress(seeds, accepted)) != [record.seed for record in library]:
            text = f"{library.path / CANDIDATES}: accepted seeds are not those of {METADATA}"
            yield Finding(Grade.DIFFERS, text)
    except LibraryError as error:
        yield Finding(Grade.DIFFERS, str(error))


def _check_draws(library: ScenarioLibrary) -> Iterator[Finding]:
    for record in library:
        try:
            scenario = library.materialize(record)
            if record.proof is not None:
                yield from _check_fields(library, record, scenario)
            for trace in (record.baseline_voltage_pen_per_step, record.ofo_voltage_pen_per_step):
                if not np.all(np.isfinite(trace)):
                    yield Finding(Grade.DIFFERS, f"{library.path}: a trace of seed {record.seed} has NaN or infinities")
        except ScenarioLibError as error:
            yield Finding(Grade.DIFFERS, str(error))


def _check_fields(library: ScenarioLibrary, record: ScenarioRecord, scenario: Scenario) -> Iterator[Finding]:
    """A record's copies of drawn numbers must be those of its scenario."""
    overlay = scenario.params.training_overlay
    drawn = {
        "pv_scale": scenario.params.pv_scale,
        "load_scale": scenario.params.load_scale,
        "training_overlay": None if overlay is None else overlay.to_dict(),
    }
    difference = first_difference({name: getattr(record, name) for name in drawn}, drawn)
    if difference:
        yield Finding(
            Grade.DIFFERS, f"{library.path / METADATA}: record of seed {record.seed} was edited: {difference}"
        )


def _spread(library: ScenarioLibrary, count: int | None) -> list[ScenarioRecord]:
    """`count` records, evenly spread from the first to the last."""
    if count is None or count >= len(library):
        return list(library)
    return [library[round(position)] for position in np.linspace(0, len(library) - 1, count)]


def _check_replays(
    library: ScenarioLibrary, records: list[ScenarioRecord], options: ReplayOptions
) -> Iterator[Finding]:
    if not records:
        return
    experiments = {}
    for name, recipe in library.recipes.items():
        experiments[name] = _experiment_to_replay(recipe, options)
        yield from _data_findings(recipe, experiments[name], options)
    if library.contents.versions and library.contents.versions != versions():
        change = first_difference(versions(), library.contents.versions)
        yield Finding(Grade.HELD, f"{library.path}: versions are not those that built it ({change})")
    replay = partial(_replay_record, library, experiments, options.specs_dir)
    outcomes = run_tasks(replay, [record.index for record in records], options.run)
    for outcome in sorted(outcomes, key=lambda outcome: outcome.task):
        record = library[outcome.task]
        if outcome.failure is not None:
            yield Finding(
                Grade.DIFFERS, f"{library.path}: replay of seed {record.seed} failed: {outcome.failure.message}"
            )
        yield from outcome.result or ()


def _experiment_to_replay(recipe: Recipe, options: ReplayOptions) -> Experiment:
    """The recipe's experiment with the circuit file found again: the shipped one, or that of a user's own file."""
    source = load_experiment(options.system or recipe.experiment.name)
    feeder = replace(recipe.experiment.feeder, circuit=source.feeder.circuit)
    return replace(recipe.experiment, feeder=feeder)


def _data_findings(recipe: Recipe, experiment: Experiment, options: ReplayOptions) -> Iterator[Finding]:
    if recipe.data is None:
        return
    if circuit_digest(Path(experiment.feeder.circuit)) != recipe.data.circuit:
        yield Finding(
            Grade.HELD, f"{experiment.feeder.circuit}: the circuit is not the one that the library was built on"
        )
    if assets_digest(experiment.models, options.specs_dir) != recipe.data.models:
        yield Finding(
            Grade.HELD, "power traces or fits are not those that the library was built on; is --specs-dir right?"
        )


def _replay_record(
    library: ScenarioLibrary, experiments: dict[str, Experiment], specs_dir: Path | None, index: int
) -> list[Finding]:
    record = library[index]
    experiment = experiments["" if record.proof is None else record.proof.recipe]
    limits, assets = experiment.limits, load_assets(experiment, specs_dir)
    scenario = library.materialize(record)
    findings = []
    for name, policy, stored in (
        ("baseline", "none", record.baseline_voltage_pen_per_step),
        ("ofo", "ofo", record.ofo_voltage_pen_per_step),
    ):
        rollout = run_rollout(scenario, experiment, assets, policy, n_steps=len(stored))
        finding = _compare(
            record.seed, name, penalty_trace(rollout.voltages_pu, limits.v_min_pu, limits.v_max_pu), stored
        )
        if finding is not None:
            findings.append(finding)
    return findings


def _compare(seed: int, name: str, replayed: Array, stored: Array) -> Finding | None:
    if np.array_equal(replayed, stored):
        return None
    second = int(np.flatnonzero(replayed != stored)[0])
    largest = float(np.max(np.abs(replayed - stored)))
    grade = Grade.WITHIN_TOLERANCE if largest <= TOLERANCE_PU2 else Grade.DIFFERS
    return Finding(
        grade,
        f"seed {seed}: the {name} trace first differs at second {second} (replayed {replayed[second]!r}, stored "
        f"{stored[second]!r}); largest difference {largest:.3g} pu^2",
    )

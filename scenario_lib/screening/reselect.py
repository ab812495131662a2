"""Screen a library's candidates again by other thresholds, without simulating where the stored figures suffice.

A candidate needs a run if the new thresholds ask for its OFO rollout and there was none, or accept it and its traces
were not kept, because it was rejected before. A library says which ones do; `run_selection` measures them, and gives
the bytes that a build of the same candidates by the new thresholds gives.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from scenario_lib._arrays import Floats
from scenario_lib._files import first_difference
from scenario_lib.errors import BuildRefusedError, LibraryError
from scenario_lib.library.candidates import CandidateRow, read_candidates
from scenario_lib.library.layout import CANDIDATES
from scenario_lib.library.metadata import LibraryContents, read_contents
from scenario_lib.library.place import new_library, require_place
from scenario_lib.library.provenance import versions, write_origin
from scenario_lib.library.recipe import located_experiment
from scenario_lib.library.writer import write_library
from scenario_lib.screening.build import BuildResult, ProgressHook, build_strata
from scenario_lib.screening.build_record import EarlierResults, candidate_of_row, library_of_strata, recipe_of
from scenario_lib.screening.candidate import Candidate, MeasurePlan
from scenario_lib.screening.criteria import Reason, ScreeningCriteria, judge_baseline
from scenario_lib.screening.journal import Workspace
from scenario_lib.screening.request import BuildOptions, CandidateRequest, Quota
from scenario_lib.screening.select import Selection, Stratum, plan_stratum
from scenario_lib.simulation.engines import engine_from_label


def stored_strata(path: Path, thresholds: Mapping[str, float], specs_dir: Path | None = None) -> list[Stratum]:
    """A library's candidates, by recipe, with some thresholds changed.

    Args:
        path: The library, which may be empty.
        thresholds: Criteria by name; the others stay those that each recipe's candidates were screened by.
        specs_dir: Spec cache of a run.

    Raises:
        InvalidSettingError: A threshold has a value that is not allowed.
        LibraryError: The library is damaged, has no digests, or was screened on two engines.
    """
    path = path.resolve()
    contents = read_contents(path)
    if not contents.digests:
        raise LibraryError(f"{path}: has no candidates table to select from: written by openg2g's example")
    with contents.unchanged(path / CANDIDATES) as stream:
        table = read_candidates(path / CANDIDATES, stream)
    rows: dict[str, list[CandidateRow]] = {}
    for row in table.to_pylist():
        rows.setdefault(row["recipe"], []).append(CandidateRow(**row))
    plans = {
        name: MeasurePlan(
            experiment=contents.recipes[name].experiment,
            settings=contents.recipes[name].settings,
            criteria=ScreeningCriteria(**{**contents.screening_of(name), **thresholds}),  # type: ignore[arg-type]
            specs_dir=specs_dir,
            engine=engine_from_label(_engine(path, rows[name])),
        )
        for name in rows
    }
    return [_stored(contents, name, plans[name], rows[name]) for name in sorted(rows)]


def _stored(contents: LibraryContents, name: str, plan: MeasurePlan, rows: list[CandidateRow]) -> Stratum:
    recipe = contents.recipes[name]
    request = CandidateRequest(seeds=tuple(row.seed for row in rows), quota=_quota(contents, name))
    stratum = replace(plan_stratum(plan, request, recipe.stratum), recipe=recipe)
    digests = {r.seed: r.digests for r in contents.records if r.digests is not None and r.digests.recipe == name}
    stored = (candidate_of_row(row, digests.get(row.seed), plan.criteria) for row in rows)
    return replace(stratum, candidates=tuple(_without_needless_ofo(each, stratum.plan) for each in stored))


def _needs_ofo(candidate: Candidate, plan: MeasurePlan) -> bool:
    """Whether its verdict depends on an OFO rollout that was not simulated."""
    if candidate.failure is not None or candidate.baseline is None or candidate.ofo is not None:
        return False
    return judge_baseline(candidate.baseline, plan.criteria, plan.kinds) is None


def _without_needless_ofo(candidate: Candidate, plan: MeasurePlan) -> Candidate:
    """Without the figures of an OFO rollout that a build by this plan would not have simulated."""
    if candidate.baseline is None or judge_baseline(candidate.baseline, plan.criteria, plan.kinds) is None:
        return candidate
    failure = candidate.failure
    return replace(
        candidate, ofo=None, ofo_always_min=None, failure=None if failure and failure.stage == "ofo" else failure
    )


def _quota(contents: LibraryContents, recipe: str) -> Quota | None:
    """The quota that the stratum was built for; a recipe of several libraries has none in common."""
    quotas = [stratum.quota for stratum in contents.strata if stratum.recipe == recipe]
    return Quota(**quotas[0]) if len(quotas) == 1 and quotas[0] else None


def _engine(path: Path, rows: list[CandidateRow]) -> str:
    engines = sorted({row.engine for row in rows})
    if len(engines) > 1:
        raise LibraryError(
            f"{path}: recipe {rows[0].recipe} was screened on {' and '.join(engines)}, whose figures differ; select "
            f"from a library of one engine"
        )
    return engines[0]


def _earlier_results(stored: list[Stratum], contents: LibraryContents) -> EarlierResults:
    """What need not be measured again.

    Raises:
        LibraryError: Two recipes have a seed in common.
    """
    candidates: dict[int, Candidate] = {}
    unjudged: set[int] = set()
    for stratum in stored:
        own = {candidate.seed: candidate for candidate in stratum.candidates}
        shared = candidates.keys() & own.keys()
        if shared:
            raise LibraryError(
                f"seed {min(shared)} has candidates of several recipes, which were merged; export one recipe, and "
                f"select from that"
            )
        candidates |= own
        unjudged |= {seed for seed, candidate in own.items() if _needs_ofo(candidate, stratum.plan)}
    records = {record.seed: record for record in contents.records}

    def traces(seed: int) -> tuple[Floats, Floats]:
        return records[seed].baseline_voltage_pen_per_step, records[seed].ofo_voltage_pen_per_step

    return EarlierResults({seed: each for seed, each in candidates.items() if seed not in unjudged}, traces)


@dataclass(frozen=True, slots=True)
class SelectionReport:
    """What screening again found.

    Attributes:
        path: Where the library is; None if none was written.
        kept, lost: Seeds of records that stay, and that do not.
        needs_run: Seeds whose verdict, or whose traces, take a run.
        reasons: Candidates by verdict.
    """

    path: Path | None
    kept: tuple[int, ...]
    lost: tuple[int, ...]
    needs_run: tuple[int, ...]
    reasons: dict[str, int]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return {**asdict(self), "path": None if self.path is None else str(self.path)}

    def lines(self) -> list[str]:
        """The report as text."""
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.reasons.items())
        lines = [
            f"candidates          {sum(self.reasons.values())}: {reasons}",
            f"records             {len(self.kept)} kept, {len(self.lost)} lost",
        ]
        if self.needs_run:
            seeds = ", ".join(map(str, self.needs_run[:8])) + (", ..." if len(self.needs_run) > 8 else "")
            lines.append(f"need a run          {len(self.needs_run)} candidates: seeds {seeds}")
        return lines if self.path is None else [*lines, f"library             {self.path}"]


def _screen_again(stored: Stratum) -> Stratum:
    """The stratum judged by the figures at hand; a candidate that needs a run is not accepted, and says so."""
    selection = Selection(stored.plan.criteria, stored.request.goal)
    judged = []
    for candidate in sorted(stored.candidates, key=lambda candidate: candidate.seed):
        if selection.enough:
            break
        if _needs_ofo(candidate, stored.plan):
            judged.append(replace(candidate, reason=Reason.NEEDS_RUN))
            continue
        again = selection.judge(candidate)
        untraced = again.accepted and again.trace_digests is None
        judged.append(replace(again, reason=Reason.NEEDS_RUN) if untraced else again)
    return replace(stored, candidates=tuple(judged))


def select_again(path: Path, stored: list[Stratum], out: Path | None, overwrite: bool = False) -> SelectionReport:
    """Screen by the stored figures, and write the library of what is accepted, if anything is.

    Args:
        path: The library.
        stored: Its candidates, with new thresholds.
        out: Where to; None only says what would come out.
        overwrite: Replace a library that is there.

    Raises:
        BuildRefusedError: Something is at `out` that may not be replaced.
        ReplayError: A record cannot be drawn again.
    """
    if out is not None:
        require_place(out, overwrite, [path])
    screened = [_screen_again(part) for part in stored]
    judged = [candidate for part in screened for candidate in part.candidates]
    accepted = any(candidate.accepted for candidate in judged)
    if out is not None and accepted:
        _write(path, stored, screened, out, overwrite)
    return selection_report(stored, judged, out.resolve() if out is not None and accepted else None)


def selection_report(stored: list[Stratum], judged: list[Candidate], path: Path | None) -> SelectionReport:
    """What became of a library's candidates.

    Args:
        stored: The candidates as they were.
        judged: With their new verdicts, before or after a run.
        path: Where the library of them is; None if none was written.
    """
    kept = _seeds(judged, Reason.ACCEPTED)
    records = (candidate.seed for part in stored for candidate in part.candidates if candidate.accepted)
    return SelectionReport(
        path=path,
        kept=kept,
        lost=tuple(sorted(set(records) - set(kept))),
        needs_run=_seeds(judged, Reason.NEEDS_RUN),
        reasons=dict(Counter(str(candidate.reason) for candidate in judged).most_common()),
    )


def _seeds(judged: list[Candidate], reason: Reason) -> tuple[int, ...]:
    return tuple(sorted(candidate.seed for candidate in judged if candidate.reason is reason))


def _write(path: Path, stored: list[Stratum], screened: list[Stratum], out: Path, overwrite: bool) -> None:
    contents = read_contents(path.resolve())
    earlier = _earlier_results(stored, contents)
    library = library_of_strata(screened, contents.versions)
    with new_library(out, overwrite, [path]) as folder:
        write_library(folder, library, (earlier.traces(record.seed) for record in library.records))
        write_origin(folder, [path.resolve()], {"command": "select"})


def run_selection(
    path: Path, stored: list[Stratum], options: BuildOptions, system: str | None, on_progress: ProgressHook
) -> BuildResult:
    """Measure what needs a run, and build the library: the bytes of a build of these candidates by the new thresholds.

    Args:
        path: The library.
        stored: Its candidates, with new thresholds.
        options: Where to, and how it runs.
        system: Experiment's TOML file, for a library on a feeder of the user's own.
        on_progress: Called as candidates finish.

    Raises:
        BuildRefusedError: Versions or data are not those of the library, or the target is taken.
        InvalidSettingError: The feeder does not ship, and no file is given.
    """
    Workspace(options.out).require_apart(path)
    contents = read_contents(path.resolve())
    difference = first_difference(versions(), contents.versions)
    if difference:
        raise BuildRefusedError(
            f"{path}: figures of two versions do not go together ({difference}); select without a run, build again, or "
            f"install the versions that built it"
        )
    located = [_located(path, part, system) for part in stored]
    return build_strata(located, options, on_progress, _earlier_results(located, contents))


def _located(path: Path, stratum: Stratum, system: str | None) -> Stratum:
    """The stratum with its circuit found again, and the data that it was screened on."""
    plan = replace(stratum.plan, experiment=located_experiment(stratum.recipe, system))
    difference = first_difference(recipe_of(plan, stratum.name).to_dict(), stratum.recipe.to_dict())
    if difference:
        raise BuildRefusedError(
            f"{path}: the data are not those that it was screened on ({difference}); is --specs-dir right?"
        )
    return replace(stratum, plan=plan)

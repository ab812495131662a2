"""Screen a library's candidates again by other thresholds, without simulating where the stored figures suffice.

A candidate needs a run if the new thresholds ask for its OFO rollout and there was none, or accept it and its traces
were not kept, because it was rejected before. A library says which ones do; `run_selection` measures them, and gives
the bytes that a build of the same candidates by the new thresholds gives.
"""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from scenario_lib.errors import BuildRefusedError
from scenario_lib.feeders.canonical import first_difference
from scenario_lib.library.contents import read_contents
from scenario_lib.library.origin import write_origin
from scenario_lib.library.place import new_library, require_place
from scenario_lib.library.recipe import located_experiment
from scenario_lib.library.versions import versions
from scenario_lib.library.writer import write_library
from scenario_lib.screening.assemble import assemble
from scenario_lib.screening.build import BuildResult, ProgressHook, build_strata
from scenario_lib.screening.criteria import Reason
from scenario_lib.screening.planned import Screened
from scenario_lib.screening.provenance import recipe_of
from scenario_lib.screening.request import BuildOptions
from scenario_lib.screening.select import Chosen, Selection
from scenario_lib.screening.stored import needs_ofo
from scenario_lib.screening.stored_strata import StoredStratum, known_candidates
from scenario_lib.screening.workspace import Workspace


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


def screen_again(stored: StoredStratum) -> Screened:
    """Verdicts by the figures at hand; a candidate that needs a run is not accepted, and says so."""
    selection = Selection(stored.stratum.plan.criteria, stored.stratum.request.goal)
    chosen = []
    for seed in stored.stratum.request.seed_order():
        if selection.enough:
            break
        line = stored.lines[seed]
        if needs_ofo(line.measured, stored.stratum.plan):
            chosen.append(Chosen(line.measured, Reason.NEEDS_RUN))
            continue
        choice = selection.add(line.measured)
        untraced = choice.accepted and line.trace_digests is None
        chosen.append(replace(choice, reason=Reason.NEEDS_RUN) if untraced else choice)
    return Screened(stored.stratum, stored.recipe, stored.recipe_id, chosen)


def select_again(path: Path, stored: list[StoredStratum], out: Path | None, overwrite: bool = False) -> SelectionReport:
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
    screened = [screen_again(part) for part in stored]
    chosen = [choice for part in screened for choice in part.chosen]
    accepted = any(choice.accepted for choice in chosen)
    if out is not None and accepted:
        _write(path, stored, screened, out, overwrite)
    return selection_report(stored, chosen, out.resolve() if out is not None and accepted else None)


def selection_report(stored: list[StoredStratum], chosen: list[Chosen], path: Path | None) -> SelectionReport:
    """What became of a library's candidates.

    Args:
        stored: The candidates as they were.
        chosen: The new verdicts, before or after a run.
        path: Where the library of them is; None if none was written.
    """
    return SelectionReport(
        path=path,
        kept=_seeds(chosen, Reason.ACCEPTED),
        lost=tuple(sorted({s for part in stored for s in part.records} - set(_seeds(chosen, Reason.ACCEPTED)))),
        needs_run=_seeds(chosen, Reason.NEEDS_RUN),
        reasons=dict(Counter(str(choice.reason) for choice in chosen).most_common()),
    )


def _seeds(chosen: list[Chosen], reason: Reason) -> tuple[int, ...]:
    return tuple(sorted(choice.measured.seed for choice in chosen if choice.reason is reason))


def _write(path: Path, stored: list[StoredStratum], screened: list[Screened], out: Path, overwrite: bool) -> None:
    known = known_candidates(stored)
    library = assemble(screened, known.lines, read_contents(path.resolve()).versions)
    with new_library(out, overwrite, [path]) as folder:
        write_library(folder, library, (known.traces(record.fields.seed) for record in library.records))
        write_origin(folder, [path.resolve()], {"command": "select"})


def run_selection(
    path: Path, stored: list[StoredStratum], options: BuildOptions, system: str | None, on_progress: ProgressHook
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
    difference = first_difference(versions(), read_contents(path.resolve()).versions)
    if difference:
        raise BuildRefusedError(
            f"{path}: figures of two versions do not go together ({difference}); select without a run, build again, or "
            f"install the versions that built it"
        )
    located = [_located(path, part, system) for part in stored]
    return build_strata([part.stratum for part in located], options, on_progress, known_candidates(located))


def _located(path: Path, part: StoredStratum, system: str | None) -> StoredStratum:
    """The stratum with its circuit found again, and the data that it was screened on."""
    plan = replace(part.stratum.plan, experiment=located_experiment(part.recipe, system))
    difference = first_difference(recipe_of(plan, part.recipe.stratum).to_dict(), part.recipe.to_dict())
    if difference:
        raise BuildRefusedError(
            f"{path}: the data are not those that it was screened on ({difference}); is --specs-dir right?"
        )
    return replace(part, stratum=replace(part.stratum, plan=plan))

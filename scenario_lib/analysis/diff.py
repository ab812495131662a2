"""Two libraries side by side: what came, what went, what is judged otherwise, and what may be the cause.

A comparison of two libraries as text.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scenario_lib.analysis.pairing import (
    Change,
    Pairs,
    Shift,
    VerdictFlip,
    acceptance_shift,
    figure_shift,
    flips,
    holm_adjusted,
    pair_up,
    provenance_changes,
)
from scenario_lib.library.candidates import CandidateRow, read_candidates
from scenario_lib.library.layout import CANDIDATES
from scenario_lib.library.metadata import LibraryContents, read_contents
from scenario_lib.library.record import ScenarioRecord


@dataclass(frozen=True, slots=True)
class Moved:
    """Records of the same scenario whose rollouts are not the same any more.

    Attributes:
        records: How many have another trace, or another figure.
        largest_integral_change: Largest difference of a baseline or OFO integral (pu s).
        largest_recovery_change: Largest difference of a recovery.
    """

    records: int
    largest_integral_change: float
    largest_recovery_change: float


@dataclass(frozen=True, slots=True)
class LibraryDiff:
    """Differences between a library and an earlier one.

    Attributes:
        before, after: The two directories.
        kept: Records of the same scenario in both.
        lost, gained: Seeds of records in one only.
        changed: Seeds of records that both have, with another scenario.
        moved: Kept records whose rollouts differ.
        flipped: Candidates that were judged otherwise.
        shifts: Tests on the distributions.
        provenance: Changes of versions, data, settings, thresholds and engine.
    """

    before: Path
    after: Path
    kept: int
    lost: tuple[int, ...]
    gained: tuple[int, ...]
    changed: tuple[int, ...]
    moved: Moved
    flipped: tuple[VerdictFlip, ...]
    shifts: tuple[Shift, ...]
    provenance: tuple[Change, ...]

    @property
    def equal(self) -> bool:
        """Whether nothing differs at all."""
        return not (self.lost or self.gained or self.changed or self.moved.records or self.flipped or self.provenance)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values."""
        return {**asdict(self), "before": str(self.before), "after": str(self.after), "equal": self.equal}


def diff_libraries(before: Path, after: Path) -> LibraryDiff:
    """Compare two libraries.

    Raises:
        LibraryError: Either is not a library, or is damaged.
    """
    first, second = read_contents(before.resolve()), read_contents(after.resolve())
    records = pair_up(first.records, second.records, _record_digest, _seed)
    rows_before, rows_after = _rows(before, first), _rows(after, second)
    candidates = pair_up(rows_before, rows_after, _row_digest, _seed)
    return LibraryDiff(
        before=before,
        after=after,
        kept=len(records.same),
        lost=_seeds(records.lost),
        gained=_seeds(records.gained),
        changed=tuple(pair[1].seed for pair in records.changed),
        moved=_moved(records),
        flipped=tuple(flips((*candidates.same, *candidates.changed))),
        shifts=_shifts(rows_before, rows_after),
        provenance=provenance_changes(first, second),
    )


def _rows(folder: Path, contents: LibraryContents) -> list[CandidateRow]:
    """Rows of the candidates table; none for a library by openg2g's example."""
    if not contents.digests:
        return []
    path = folder.resolve() / CANDIDATES
    with contents.unchanged(path) as stream:
        return [CandidateRow(**row) for row in read_candidates(path, stream).to_pylist()]


def _record_digest(record: ScenarioRecord) -> str | None:
    return None if record.digests is None else record.digests.scenario_digest


def _row_digest(row: CandidateRow) -> str | None:
    return row.scenario_digest


def _seed(entry: ScenarioRecord | CandidateRow) -> int:
    return entry.seed


def _seeds(records: tuple[ScenarioRecord, ...]) -> tuple[int, ...]:
    return tuple(sorted(record.seed for record in records))


def _moved(records: Pairs[ScenarioRecord]) -> Moved:
    count, integral, recovery = 0, 0.0, 0.0
    for before, after in records.same:
        changes = [
            abs(before.baseline_integral - after.baseline_integral),
            abs(before.ofo_integral - after.ofo_integral),
        ]
        count += any(changes) or _traces_differ(before, after)
        integral = max(integral, *changes)
        recovery = max(recovery, abs(before.recovery_frac - after.recovery_frac))
    return Moved(count, integral, recovery)


def _traces_differ(before: ScenarioRecord, after: ScenarioRecord) -> bool:
    if before.digests is None or after.digests is None:
        return False
    return (before.digests.baseline_digest, before.digests.ofo_digest) != (
        after.digests.baseline_digest,
        after.digests.ofo_digest,
    )


def _shifts(before: list[CandidateRow], after: list[CandidateRow]) -> tuple[Shift, ...]:
    def figures(name: str, wanted: Callable[[CandidateRow], bool]) -> tuple[list[float], list[float]]:
        first, second = (
            [getattr(row, name) for row in rows if wanted(row) and getattr(row, name) is not None]
            for rows in (before, after)
        )
        return first, second

    def accepted(row: CandidateRow) -> bool:
        return row.accepted

    tests = (
        acceptance_shift("acceptance", [row.accepted for row in before], [row.accepted for row in after]),
        figure_shift(
            "baseline integral of candidates", *figures("baseline_integral", lambda row: row.kind is not None)
        ),
        figure_shift("recovery of candidates", *figures("recovery_frac", lambda row: row.ofo_ran)),
        figure_shift("baseline integral of records", *figures("baseline_integral", accepted)),
        figure_shift("recovery of records", *figures("recovery_frac", accepted)),
    )
    return holm_adjusted([test for test in tests if test is not None])


_MOST_LISTED = 20


def diff_lines(diff: LibraryDiff) -> list[str]:
    """The comparison, a finding a line."""
    return [
        f"{diff.before} -> {diff.after}",
        f"records             {diff.kept} kept, {len(diff.lost)} lost, {len(diff.gained)} gained, "
        f"{len(diff.changed)} of the same seed with another scenario",
        *_seed_lines("lost", diff.lost),
        *_seed_lines("gained", diff.gained),
        *_seed_lines("another scenario", diff.changed),
        *_moved_lines(diff),
        f"verdicts            {len(diff.flipped)} not the same",
        *_listed([f"  {flip}" for flip in diff.flipped]),
        *_shift_lines(diff.shifts),
        *(["changed"] if diff.provenance else []),
        *_listed([f"  {change}" for change in diff.provenance]),
        "equal" if diff.equal else "different",
    ]


def _moved_lines(diff: LibraryDiff) -> Iterator[str]:
    if diff.moved.records:
        yield (
            f"rollouts            {diff.moved.records} kept records have other traces or figures; integrals by up to "
            f"{diff.moved.largest_integral_change:.3g} pu s, recovery by up to {diff.moved.largest_recovery_change:.3g}"
        )


def _seed_lines(label: str, seeds: Sequence[int]) -> Iterator[str]:
    if seeds:
        listed = ", ".join(str(seed) for seed in seeds[:_MOST_LISTED])
        yield f"  {label}: {listed}{_rest(len(seeds))}"


def _listed(lines: list[str]) -> list[str]:
    rest = _rest(len(lines))
    return [*lines[:_MOST_LISTED], *([f"  {rest.removeprefix(', ')}"] if rest else [])]


def _rest(count: int) -> str:
    return f", and {count - _MOST_LISTED} more (--json has all)" if count > _MOST_LISTED else ""


def _shift_lines(shifts: Sequence[Shift]) -> Iterator[str]:
    if shifts:
        yield "distributions       before -> after (fraction or median); effect; p, adjusted for the number of tests"
    for shift in shifts:
        yield (
            f"  {shift.quantity:32}{shift.before:.4g} -> {shift.after:.4g} (n {shift.n_before}, {shift.n_after}); "
            f"{shift.effect:+.3g}; p {shift.p_value:.3g}, {shift.adjusted_p:.3g}"
        )

"""A comparison of two libraries as text."""

from collections.abc import Iterator, Sequence

from scenario_lib.nightly.diff import LibraryDiff
from scenario_lib.nightly.shifts import Shift

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

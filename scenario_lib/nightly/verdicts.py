"""Candidates whose verdict is not the same in two libraries, and how near to the threshold they are."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from scenario_lib.library.candidates import CandidateRow
from scenario_lib.nightly.pairing import Pair
from scenario_lib.screening.criteria import Reason

_MARGIN_OF = {
    Reason.BASELINE_BELOW_FLOOR: "baseline_floor_margin",
    Reason.BASELINE_ABOVE_CEILING: "baseline_ceiling_margin",
    Reason.RECOVERY_BELOW_FLOOR: "recovery_floor_margin",
    Reason.RECOVERY_ABOVE_CEILING: "recovery_ceiling_margin",
}


@dataclass(frozen=True, slots=True)
class Flip:
    """A scenario that was judged otherwise.

    Attributes:
        criterion: The margin that tells the two verdicts apart; None where no threshold does (a cap, a failure).
        margin_before, margin_after: Distance to that threshold, negative where it is missed (pu s for an integral).
    """

    seed: int
    before: str
    after: str
    criterion: str | None
    margin_before: float | None
    margin_after: float | None

    @property
    def changes_acceptance(self) -> bool:
        """Whether it is accepted in one library and not in the other."""
        return (self.before == Reason.ACCEPTED) != (self.after == Reason.ACCEPTED)

    def __str__(self) -> str:
        text = f"seed {self.seed}: {self.before} -> {self.after}"
        if self.criterion is None:
            return text
        margins = " -> ".join(
            "not measured" if margin is None else f"{margin:+.4g}" for margin in (self.margin_before, self.margin_after)
        )
        return f"{text} ({self.criterion.replace('_', ' ')} {margins})"


def flips(pairs: Iterable[Pair[CandidateRow]]) -> Iterator[Flip]:
    """Those of the pairs whose reasons differ."""
    for before, after in pairs:
        if before.reason == after.reason:
            continue
        criterion = next((_MARGIN_OF[Reason(r)] for r in (after.reason, before.reason) if r in _MARGIN_OF), None)
        margins = (None, None) if criterion is None else (getattr(before, criterion), getattr(after, criterion))
        yield Flip(after.seed, before.reason, after.reason, criterion, *margins)

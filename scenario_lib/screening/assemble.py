"""From screened strata to what a library's files hold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from scenario_lib.library.strata import hull, in_order, to_state
from scenario_lib.library.traces import Array
from scenario_lib.library.writer import NewLibrary
from scenario_lib.screening.criteria import Reason
from scenario_lib.screening.journal import JournalLine
from scenario_lib.screening.planned import Screened
from scenario_lib.screening.rows import candidate_row, new_record

_BY_CHANCE = (Reason.TIMEOUT, Reason.WORKER_DIED)


def _no_traces(seed: int) -> tuple[Array, Array]:
    raise LookupError(f"no traces of seed {seed} are known")


@dataclass(frozen=True, slots=True)
class Known:
    """Candidates whose figures are known before a build begins.

    Attributes:
        lines: By seed; without digests where there are no traces.
        traces: The (baseline, OFO) penalty traces of a seed whose line has their digests.
    """

    lines: Mapping[int, JournalLine] = field(default_factory=dict)
    traces: Callable[[int], tuple[Array, Array]] = _no_traces


NOTHING_KNOWN = Known()


def assemble(screened: Sequence[Screened], lines: Mapping[int, JournalLine], versions: dict[str, str]) -> NewLibrary:
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
        screening=hull(strata),
        versions=versions,
        reproducible=not any(choice.reason in _BY_CHANCE for choice, _ in every),
        strata=to_state(strata),
    )

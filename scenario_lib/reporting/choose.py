"""Which scenarios of a library say most about it."""

from collections.abc import Callable, Sequence

import numpy as np

from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.library.record import ScenarioRecord

Chosen = list[tuple[ScenarioRecord, str]]
"""Records, and why each was chosen."""


def asked_records(library: ScenarioLibrary, seeds: Sequence[int]) -> Chosen:
    """The records of these seeds.

    Raises:
        UnknownNameError: No record, or more than one, has that seed.
    """
    return [(library.record_for(seed), "asked for") for seed in seeds]


def telling_records(library: ScenarioLibrary) -> Chosen:
    """The hardest, the least recovered, that of median recovery, and the middle one of each kind; each record once."""
    records = list(library)
    picks = [
        (max(records, key=lambda record: record.baseline_integral), "hardest: the largest baseline integral"),
        (min(records, key=lambda record: record.recovery_frac), "least recovered by OFO"),
        (_middle(records, lambda record: record.recovery_frac), "median recovery"),
    ]
    kinds = list(dict.fromkeys(record.kind for record in records))
    for kind in kinds if len(kinds) > 1 else ():
        members = [record for record in records if record.kind == kind]
        picks.append((_middle(members, lambda record: record.baseline_integral), f"typical of its kind ({kind})"))
    why: dict[int, list[str]] = {}
    for record, reason in picks:
        why.setdefault(record.index, []).append(reason)
    return [(records[index], "; ".join(reasons)) for index, reasons in why.items()]


def _middle(records: Sequence[ScenarioRecord], figure: Callable[[ScenarioRecord], float]) -> ScenarioRecord:
    order = np.argsort([figure(record) for record in records], kind="stable")
    return records[int(order[(len(order) - 1) // 2])]

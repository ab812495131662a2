"""What a build did, on one screen or as plain values."""

from collections import Counter
from typing import Any

import numpy as np

from scenario_lib.screening.build import BuildResult
from scenario_lib.screening.criteria import recovery_frac
from scenario_lib.screening.readable import Spread, spread_text


def summary_lines(result: BuildResult, wall_s: float) -> list[str]:
    """The summary of a build, line by line."""
    chosen, accepted = result.chosen, result.accepted
    rejected = Counter(str(choice.reason) for choice in chosen if not choice.accepted)
    kinds = Counter(choice.kind for choice in accepted)
    lines = [
        f"accepted {len(accepted)} of {len(chosen)} candidates"
        + (f" ({_counts(kinds)})" if accepted else "")
        + (f"; rejected: {_counts(rejected)}" if rejected else "")
    ]
    for part in result.screened if len(result.screened) > 1 else ():
        found = Counter(str(choice.kind) for choice in part.chosen if choice.accepted)
        counts = _counts(found) or "none"
        lines.append(f"stratum             {part.stratum.name}: {counts} of {len(part.chosen)} candidates")
    spreads = _spreads(result)
    if spreads:
        recovery, integral_pu_s = spreads
        lines.append(f"recovery by OFO     {spread_text(recovery)}")
        lines.append(f"baseline integral   {spread_text(integral_pu_s, 'pu s')}")
    measured_now = len(result.log.seconds_by_seed) - result.log.resumed
    lines.append(
        f"time                {wall_s:.1f} s with {result.log.jobs} worker(s); {result.log.mean_seconds:.2f} s a "
        f"candidate in its worker" + (f"; {wall_s / measured_now:.2f} s a candidate in all" if measured_now else "")
    )
    if result.notice:
        lines.append(f"engine              {result.notice}")
    for choice in result.failed[:5]:
        failure = choice.measured.failure
        lines.append(f"failed              seed {choice.measured.seed}: {choice.reason}: {failure and failure.message}")
    if len(result.failed) > 5:
        lines.append(f"failed              and {len(result.failed) - 5} more; the candidates table has them all")
    return lines


def summary_facts(result: BuildResult, wall_s: float) -> dict[str, Any]:
    """The summary of a build as plain values; spreads are lowest, median and highest."""
    recovery, integral_pu_s = _spreads(result) or (None, None)
    return {
        "path": str(result.path),
        "candidates": len(result.chosen),
        "accepted": len(result.accepted),
        "kinds": dict(Counter(choice.kind for choice in result.accepted)),
        "reasons": dict(Counter(str(choice.reason) for choice in result.chosen)),
        "recovery": recovery,
        "integral_pu_s": integral_pu_s,
        "failed_seeds": [choice.measured.seed for choice in result.failed],
        "shortfalls": result.shortfalls,
        "kept_existing": result.kept_existing,
        "notice": result.notice,
        "jobs": result.log.jobs,
        "resumed": result.log.resumed,
        "wall_s": wall_s,
    }


def _spreads(result: BuildResult) -> tuple[Spread, Spread] | None:
    """Recovery and baseline integral (pu s) over the accepted; None without any."""
    figures = [(chosen.measured.baseline, chosen.measured.ofo) for chosen in result.accepted]
    pairs = [(baseline, ofo) for baseline, ofo in figures if baseline and ofo]
    if not pairs:
        return None
    return _spread([recovery_frac(*pair) for pair in pairs]), _spread([first.integral_pu_s for first, _ in pairs])


def _counts(counter: Counter[str | None] | Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items(), key=lambda item: -item[1]))


def _spread(values: list[float]) -> Spread:
    low, middle, high = np.quantile(values, [0.0, 0.5, 1.0])
    return float(low), float(middle), float(high)

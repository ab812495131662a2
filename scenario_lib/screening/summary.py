"""What a build did, on one screen."""

from collections import Counter

import numpy as np

from scenario_lib.screening.build import BuildResult
from scenario_lib.screening.criteria import recovery_frac


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
    figures = [(c.measured.baseline, c.measured.ofo) for c in accepted]
    pairs = [(baseline, ofo) for baseline, ofo in figures if baseline and ofo]
    if pairs:
        lines.append("recovery by OFO     " + _spread([recovery_frac(*pair) for pair in pairs], ""))
        lines.append("baseline integral   " + _spread([baseline.integral_pu_s for baseline, _ in pairs], " pu s"))
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


def _counts(counter: Counter[str | None] | Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items(), key=lambda item: -item[1]))


def _spread(values: list[float], unit: str) -> str:
    low, middle, high = np.quantile(values, [0.0, 0.5, 1.0])
    return f"min {low:.3g}, median {middle:.3g}, max {high:.3g}{unit}"

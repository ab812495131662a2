"""Made-up candidates."""

import numpy as np

from scenario_lib.analysis.draws import CandidateColumns


def sample_columns(n_accepted: int = 4, n_rejected: int = 3) -> CandidateColumns:
    """Accepted ones break the lower limit, but the first, which breaks the upper; the last rejected is unmeasured."""
    n = n_accepted + n_rejected
    accepted = np.arange(n) < n_accepted
    kind = np.array(["over", *["under"] * (n - 1)][:n])
    recovery = np.where(accepted, 0.9, -3.0)
    if n_rejected:
        recovery[-1] = np.nan
    return CandidateColumns(
        seed=np.arange(n) * 1000 + 7,
        accepted=accepted,
        reason=np.where(accepted, "accepted", "recovery_below_floor"),
        kind=kind,
        baseline_integral_pu_s=np.geomspace(0.5, 50, n) if n else np.zeros(0),
        recovery_frac=recovery,
        window_start_s=np.full(n, 600.0),
        window_end_s=np.full(n, 1800.0),
    )

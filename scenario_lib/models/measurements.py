"""What was measured of a model: logistic fits over batch size, latency mixtures, statistics of power traces."""

import math
from dataclasses import dataclass
from typing import ClassVar

from scenario_lib._values import (
    STRICT,
    refuse,
    require_at_least,
    require_between,
    require_count,
    require_finite,
    require_positive,
)

QUANTILES = (0.01, 0.10, 0.50, 0.90, 0.99)
"""The quantiles that describe a power trace, in the order of `PowerTraceStatistics.quantiles_w_per_gpu`."""

AUTOCORRELATION_LAGS_S = (1, 5, 30)
"""The lags (s) that describe a power trace, in the order of `PowerTraceStatistics.autocorrelations`."""

# The mixture weights are given with nine digits, so that their sum may miss 1 by a few units in the last.
_WEIGHT_SUM_TOLERANCE = 1e-6

_BISECTIONS = 60


@dataclass(frozen=True, slots=True)
class LogisticFit:
    """A figure of one replica over its batch size: b0 + L / (1 + exp(-k (x - x0))) with x = log2(batch size).

    Attributes:
        L: Rise from the lower to the upper level, in the unit of the figure.
        x0: Midpoint, in doublings of the batch size.
        k: Steepness, per doubling of the batch size.
        b0: Lower level, in the unit of the figure.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    L: float
    x0: float
    k: float
    b0: float

    def __post_init__(self) -> None:
        for field in ("L", "x0", "b0"):
            require_finite(field, getattr(self, field))
        require_positive("k", self.k)

    def at(self, batch_size: int) -> float:
        """Value at one batch size."""
        # The logistic written with tanh, which cannot overflow.
        return self.b0 + self.L * 0.5 * (1.0 + math.tanh(0.5 * self.k * (math.log2(batch_size) - self.x0)))


@dataclass(frozen=True, slots=True)
class LogisticFits:
    """The three fits of one model.

    Attributes:
        power: Power of one replica, all its GPUs together (W).
        latency: Mean inter-token latency (s).
        throughput: Output tokens of one replica per second (1/s).
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    power: LogisticFit
    latency: LogisticFit
    throughput: LogisticFit


@dataclass(frozen=True, slots=True)
class ITLMixture:
    """Inter-token latency at one batch size: loc plus a lognormal, which is the steady or the stalled one.

    Attributes:
        batch_size: Batch size that was measured.
        loc: Shift of both lognormals (s).
        pi_steady: Weight of the steady part; `pi_stall` is that of stalls, and both sum to 1.
        sigma_steady: Standard deviation of the steady part's logarithm; `sigma_stall` likewise.
        scale_steady: Median of the steady part above `loc` (s); `scale_stall` likewise.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    batch_size: int
    loc: float
    pi_steady: float
    sigma_steady: float
    scale_steady: float
    pi_stall: float
    sigma_stall: float
    scale_stall: float

    def __post_init__(self) -> None:
        require_count("batch_size", self.batch_size, 1)
        at = f"at batch size {self.batch_size}"
        require_at_least(f"loc {at}", self.loc, 0)
        for field in ("pi_steady", "pi_stall"):
            require_between(f"{field} {at}", getattr(self, field), 0, 1)
        for field in ("sigma_steady", "scale_steady", "sigma_stall", "scale_stall"):
            require_positive(f"{field} {at}", getattr(self, field))
        total = self.pi_steady + self.pi_stall
        if abs(total - 1.0) > _WEIGHT_SUM_TOLERANCE:
            raise refuse(f"pi_steady + pi_stall {at}", total, "1")

    def mean_s(self) -> float:
        """Mean latency (s)."""
        steady = self.pi_steady * self.scale_steady * math.exp(self.sigma_steady**2 / 2)
        stalls = self.pi_stall * self.scale_stall * math.exp(self.sigma_stall**2 / 2)
        return self.loc + steady + stalls

    def quantile_s(self, probability: float) -> float:
        """Latency that a token stays below with this probability (s), by bisection in its logarithm."""
        logs = [math.log(self.scale_steady), math.log(self.scale_stall)]
        widest = max(self.sigma_steady, self.sigma_stall)
        low, high = min(logs) - 9.0 * widest, max(logs) + 9.0 * widest
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            below = self.pi_steady * _normal_cdf((middle - logs[0]) / self.sigma_steady)
            below += self.pi_stall * _normal_cdf((middle - logs[1]) / self.sigma_stall)
            low, high = (middle, high) if below < probability else (low, middle)
        return self.loc + math.exp(low)


def _normal_cdf(score: float) -> float:
    return 0.5 * math.erfc(-score / math.sqrt(2.0))


@dataclass(frozen=True, slots=True)
class PowerTraceStatistics:
    """What is known of the measured power over time at one batch size.

    Attributes:
        batch_size: Batch size that was measured.
        duration_s: Length of the measurement (s).
        mean_w_per_gpu: Mean power of one GPU (W).
        std_w_per_gpu: Standard deviation in time of that power (W).
        p01_w_per_gpu: Its 1 % quantile (W); p10, p50, p90 and p99 likewise.
        autocorr_1s: Its autocorrelation at a lag of 1 s; `autocorr_5s` and `autocorr_30s` likewise.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    batch_size: int
    duration_s: float
    mean_w_per_gpu: float
    std_w_per_gpu: float
    p01_w_per_gpu: float
    p10_w_per_gpu: float
    p50_w_per_gpu: float
    p90_w_per_gpu: float
    p99_w_per_gpu: float
    autocorr_1s: float
    autocorr_5s: float
    autocorr_30s: float

    def __post_init__(self) -> None:
        require_count("batch_size", self.batch_size, 1)
        at = f"at batch size {self.batch_size}"
        for field in ("duration_s", "mean_w_per_gpu", "std_w_per_gpu", "p01_w_per_gpu"):
            require_positive(f"{field} {at}", getattr(self, field))
        for value in self.quantiles_w_per_gpu:
            require_finite(f"p01 to p99 {at}", value)
        if list(self.quantiles_w_per_gpu) != sorted(self.quantiles_w_per_gpu):
            raise refuse(f"p01 to p99 {at}", self.quantiles_w_per_gpu, "quantiles that do not decrease")
        for lag_s, value in zip(AUTOCORRELATION_LAGS_S, self.autocorrelations, strict=True):
            require_between(f"autocorr_{lag_s}s {at}", value, -1, 1)

    @property
    def quantiles_w_per_gpu(self) -> tuple[float, float, float, float, float]:
        """The values at `QUANTILES` (W)."""
        return (self.p01_w_per_gpu, self.p10_w_per_gpu, self.p50_w_per_gpu, self.p90_w_per_gpu, self.p99_w_per_gpu)

    @property
    def autocorrelations(self) -> tuple[float, float, float]:
        """The values at `AUTOCORRELATION_LAGS_S`."""
        return (self.autocorr_1s, self.autocorr_5s, self.autocorr_30s)

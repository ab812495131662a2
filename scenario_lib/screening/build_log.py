"""The build log: dates, durations and facts about the machine, apart from the files that are compared."""

import datetime
import os
import platform
import statistics
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from scenario_lib.library.files import BUILD_LOG, write_json


@dataclass(slots=True)
class BuildLog:
    """Collected during a build.

    Attributes:
        seconds_by_seed: Time each candidate took in its worker (s).
        resumed: Candidates that an earlier, unfinished run had measured.
    """

    started: str = field(default_factory=lambda: _now())
    jobs: int = 1
    resumed: int = 0
    seconds_by_seed: dict[int, float] = field(default_factory=dict)

    @property
    def mean_seconds(self) -> float:
        """Mean time of a candidate in its worker (s)."""
        return statistics.fmean(self.seconds_by_seed.values()) if self.seconds_by_seed else 0.0

    def write(self, folder: Path) -> None:
        """Write the log into a library's directory."""
        seeds = {str(seed): round(seconds, 3) for seed, seconds in sorted(self.seconds_by_seed.items())}
        write_json(
            folder / BUILD_LOG, {**asdict(self), "seconds_by_seed": seeds, "finished": _now(), "machine": machine()}
        )


def machine() -> dict[str, Any]:
    """Facts about this machine; the last bits of a rollout depend on its processor's features and BLAS kernel."""
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cpu_features": sorted([*simd.get("baseline", []), *simd.get("found", [])]),
        "blas": _blas_kernels(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }


def _blas_kernels() -> list[str]:
    """Kernels that the loaded BLAS libraries say they chose; empty if none does, or without threadpoolctl."""
    if find_spec("threadpoolctl") is None:
        return []
    from threadpoolctl import threadpool_info

    loaded = [library for library in threadpool_info() if library.get("architecture")]
    return sorted({f"{library['internal_api']} {library['architecture']}" for library in loaded})


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")

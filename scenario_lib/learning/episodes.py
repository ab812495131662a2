"""One row per finished episode of a training run, as Parquet."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scenario_lib.errors import TrainingError
from scenario_lib.feeders.regular_files import open_regular
from scenario_lib.library.files import replacing

COMPONENTS = ("voltage", "throughput", "latency", "switch", "safe", "ofo_baseline")


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode.

    Attributes:
        total_steps: Environment steps of the run when it ended.
        scenario_seed: Of the record that was played.
        episode_return: Undiscounted sum of rewards, neither normalised nor scaled.
        voltage to ofo_baseline: Sums of the reward's components; `ofo_baseline` is already inside `voltage`.
        violation_penalty_pu2: Sum of the squared violations (pu^2); null where voltages had no weight.
        steps: Steps of the episode.
        diverged: It ended because the power flow did not converge.
        wall_s: How long it took (s), the other environments and updates between its steps included.
    """

    total_steps: int
    scenario_seed: int | None
    episode_return: float
    voltage: float
    throughput: float
    latency: float
    switch: float
    safe: float
    ofo_baseline: float
    violation_penalty_pu2: float | None
    steps: int
    diverged: bool
    wall_s: float


SCHEMA = pa.schema(
    [
        ("total_steps", pa.int64()),
        ("scenario_seed", pa.int64()),
        ("episode_return", pa.float64()),
        *((name, pa.float64()) for name in COMPONENTS),
        ("violation_penalty_pu2", pa.float64()),
        ("steps", pa.int64()),
        ("diverged", pa.bool_()),
        ("wall_s", pa.float64()),
    ]
)


class EpisodeTally:
    """Adds up the running episode of one environment, step by step.

    Args:
        w_voltage: Weight of the squared violation in the reward.
    """

    def __init__(self, w_voltage: float) -> None:
        self._w_voltage = w_voltage
        self._clear()

    def _clear(self) -> None:
        self._steps = 0
        self._return = 0.0
        self._sums = dict.fromkeys(COMPONENTS, 0.0)
        self._started_s: float | None = None

    def add(self, reward: float, components: Mapping[str, float], time_s: float) -> None:
        """One step.

        Args:
            components: As in `info["reward_components"]`; empty where the power flow diverged.
            time_s: Reading of a monotonic clock (s).
        """
        if self._started_s is None:
            self._started_s = time_s
        self._steps += 1
        self._return += reward
        for name, value in components.items():
            self._sums[name] += value

    def finish(self, info: Mapping[str, Any], total_steps: int, time_s: float) -> EpisodeRow:
        """The row of the episode that ended with this step; the next one begins."""
        missed = self._sums["ofo_baseline"] - self._sums["voltage"]
        row = EpisodeRow(
            total_steps=total_steps,
            scenario_seed=info.get("scenario"),
            episode_return=self._return,
            **self._sums,
            violation_penalty_pu2=missed / self._w_voltage if self._w_voltage > 0 else None,
            steps=self._steps,
            diverged="power_flow" in info,
            wall_s=time_s - (time_s if self._started_s is None else self._started_s),
        )
        self._clear()
        return row


def write_episodes(path: Path, rows: Sequence[EpisodeRow]) -> None:
    """Write all episodes so far, replacing the file."""
    with replacing(path) as stream:
        pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows], SCHEMA), stream)


def read_episodes(path: Path, until_steps: int) -> list[EpisodeRow]:
    """The episodes that ended within so many steps of the run.

    Raises:
        TrainingError: The file is not what `write_episodes` wrote.
    """
    try:
        with open_regular(path) as stream:
            table = pq.read_table(stream)
        if table.schema != SCHEMA:
            raise ValueError("its columns are not those of episodes")
    except (OSError, ValueError, pa.ArrowException) as error:
        raise TrainingError(f"{path}: cannot be read ({error}); restore it, or train into another --out") from None
    return [EpisodeRow(**row) for row in table.to_pylist() if row["total_steps"] <= until_steps]

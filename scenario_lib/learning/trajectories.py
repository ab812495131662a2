"""Trajectories as a table: a row for every second of every rollout, for offline learning and for looking closely.

`write_rollouts` plays whole hours of a library under some controls and writes one Parquet file, a row group a rollout,
in the order of records and controls: the same bytes for any number of workers.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scenario_lib._arrays import Floats
from scenario_lib._files import replacing
from scenario_lib.env.reward import RewardConfig, weights_of
from scenario_lib.errors import BuildRefusedError, InvalidSettingError
from scenario_lib.execution.tasks import run_tasks
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.learning.evaluation import EvaluationOptions, PreparedRollouts, Task, prepare_rollouts
from scenario_lib.library.library import AnyLibrary
from scenario_lib.library.place import require_outside_libraries
from scenario_lib.library.recipe import require_one_feeder
from scenario_lib.metrics.voltage import outside_limits, penalty_trace
from scenario_lib.simulation.assets import Assets, replica_tokens_per_s
from scenario_lib.simulation.compiled.step_formulas import fill_terms, lateness, switching
from scenario_lib.simulation.compiled.step_tables import NEVER_CHANGED, TERMS
from scenario_lib.simulation.rollout import Rollout

FORMAT_VERSION = 1
_KEY = b"scenario_lib_rollouts"
_PAID = tuple(term for term in TERMS if term != "ofo_baseline")

Columns = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RolloutColumns:
    """Makes the columns of one rollout; a value, as workers import it.

    Attributes:
        voltages: A list of all voltages (pu, float32) is among them.
    """

    voltages: bool = False

    def __call__(self, rollout: Rollout, experiment: Experiment, assets: Assets) -> Columns:
        """Columns of T seconds.

        Rewards are those of the environments' default weights, over all sites and the whole feeder.
        """
        limits = experiment.limits
        under, over = outside_limits(rollout.voltages_pu, limits.v_min_pu, limits.v_max_pu)
        outside = under + over
        columns: Columns = {
            "lowest_pu": rollout.voltages_pu.min(axis=1),
            "highest_pu": rollout.voltages_pu.max(axis=1),
            "violation_pu": outside.sum(axis=1),
            "outside_frac": (outside > 0).mean(axis=1),
        }
        for position, site in enumerate(rollout.site_names):
            for phase, letter in enumerate("abc"):
                columns[f"power_w/{site}/{letter}"] = rollout.power_w[:, position, phase]
        for column, (site, label) in enumerate(rollout.model_labels):
            of_replica = replica_tokens_per_s(assets.logistic, label, rollout.batch_sizes[:, column])
            columns[f"batch_size/{site}/{label}"] = rollout.batch_sizes[:, column]
            columns[f"active_replicas/{site}/{label}"] = rollout.active_replicas[:, column]
            columns[f"itl_s/{site}/{label}"] = rollout.itl_s[:, column]
            columns[f"tokens_per_s/{site}/{label}"] = of_replica * rollout.active_replicas[:, column]
        columns |= _rewards(rollout, experiment, assets, columns["outside_frac"])
        if self.voltages:
            columns["voltages_pu"] = rollout.voltages_pu.astype(np.float32)
        return columns


def _rewards(rollout: Rollout, experiment: Experiment, assets: Assets, outside: Floats) -> Columns:
    """The reward of each second and its terms, by name; what changed in a second is what changed since the last."""
    limits = experiment.limits
    weights = weights_of(RewardConfig(v_min=limits.v_min_pu, v_max=limits.v_max_pu))
    squares = penalty_trace(rollout.voltages_pu, limits.v_min_pu, limits.v_max_pu)
    throughput, late, switched = (np.zeros(len(squares)) for _ in range(3))
    for column, (_, label) in enumerate(rollout.model_labels):
        sizes, spec = rollout.batch_sizes[:, column], experiment.spec(label)
        largest = replica_tokens_per_s(assets.logistic, label, np.array(max(spec.feasible_batch_sizes)))
        throughput += replica_tokens_per_s(assets.logistic, label, sizes) / largest
        late += [lateness(float(itl_s), spec.itl_deadline_s) for itl_s in rollout.itl_s[:, column]]
        changes = np.diff(np.log2(sizes), prepend=np.log2(sizes[0]))
        switched += [
            switching(float(change), NEVER_CHANGED, weights.switch_mode, weights.cooldown_tau) if change else 0.0
            for change in changes
        ]
    terms, total = np.zeros((len(squares), len(TERMS))), np.zeros(len(squares))
    for second, figures in enumerate(zip(squares, throughput, late, switched, outside, strict=True)):
        total[second] = fill_terms(weights, figures, 0.0, terms[second])
    return {"reward": total, **{f"reward/{name}": terms[:, TERMS.index(name)] for name in _PAID}}


@dataclass(frozen=True, slots=True)
class WrittenRollouts:
    """What was written.

    Attributes:
        rollouts: Their number; each has a row a second.
        failed: Seed, control and reason of those that failed and are left out.
        warnings: As of `evaluate`.
    """

    path: Path
    rollouts: int
    failed: tuple[tuple[int, str, str], ...]
    warnings: tuple[str, ...]


def write_rollouts(
    library: AnyLibrary,
    out: Path,
    options: EvaluationOptions,
    voltages: bool = False,
    show: Callable[[int, int], None] | None = None,
) -> WrittenRollouts:
    """Play whole hours under the controls of an evaluation, and write a row a second.

    Args:
        out: The Parquet file; an earlier one by this function is replaced.
        options: Records, controls, engine and workers.
        voltages: Write all voltages too.
        show: Called with (rollouts done, in all).

    Raises:
        BuildRefusedError: Another file is at `out`, or it lies in a library.
        InvalidSettingError: The library has records of several feeders, or as from `evaluate`.
    """
    _require_replaceable(out)
    prepared = prepare_rollouts(library, options, RolloutColumns(voltages))
    require_one_feeder(prepared.library.recipes.values(), prepared.library.path)
    failed: list[tuple[int, str, str]] = []
    with replacing(out) as stream:
        writer = None
        for done, (task, table, failure) in enumerate(_in_order(prepared, options), 1):
            if table is None:
                failed.append((prepared.library[task[0]].seed, prepared.names[task[1]], failure))
            else:
                writer = writer or pq.ParquetWriter(stream, table.schema, compression="NONE")
                writer.write_table(table, row_group_size=len(table))
            if show is not None:
                show(done, len(prepared.tasks))
        if writer is None:
            raise InvalidSettingError(f"{out}: no rollout succeeded; the first failed so: {failed[0][2]}")
        writer.close()
    return WrittenRollouts(out, len(prepared.tasks) - len(failed), tuple(failed), prepared.warnings)


def _require_replaceable(out: Path) -> None:
    require_outside_libraries(out.resolve())
    if not out.exists() and not out.is_symlink():
        return
    try:
        ours = out.is_file() and not out.is_symlink() and _KEY in (pq.read_metadata(out).metadata or {})
    except (OSError, pa.ArrowException):
        ours = False
    if not ours:
        raise BuildRefusedError(f"{out}: is there, and is no table of rollouts; move it away, or choose another --out")


def _in_order(prepared: PreparedRollouts, options: EvaluationOptions) -> Iterator[tuple[Task, pa.Table | None, str]]:
    """Tables in the order of the tasks, whichever rollout finishes first; None with the reason for one that failed."""
    waiting: dict[Task, Any] = {}
    coming = iter(prepared.tasks)
    wanted = next(coming, None)
    for outcome in run_tasks(prepared.play, prepared.tasks, options.run):
        waiting[outcome.task] = outcome
        while wanted in waiting:
            found = waiting.pop(wanted)
            if found.failure is not None:
                yield wanted, None, str(found.failure)
            else:
                yield wanted, _table(prepared, wanted, found.result), ""
            wanted = next(coming, None)


def _table(prepared: PreparedRollouts, task: Task, columns: Columns) -> pa.Table:
    record, count = prepared.library[task[0]], len(columns["reward"])
    arrays: dict[str, pa.Array] = {
        "seed": pa.array(np.full(count, record.seed)),
        "recipe": pa.array([record.digests.recipe if record.digests else ""] * count),
        "control": pa.array([prepared.names[task[1]]] * count),
        "second": pa.array(np.arange(count, dtype=np.int32)),
    }
    for name, values in columns.items():
        if values.ndim == 2:
            arrays[name] = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
        else:
            arrays[name] = pa.array(values)
    about = json.dumps({"format_version": FORMAT_VERSION})
    return pa.table(arrays).replace_schema_metadata({_KEY: about.encode()})

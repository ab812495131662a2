"""Rollouts as a table: figures are those of the rollouts, and the bytes do not depend on workers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from scenario_lib.env.factories import make_shared_batch_size_env
from scenario_lib.errors import BuildRefusedError, InvalidSettingError
from scenario_lib.execution.options import RunOptions
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.learning.evaluation import EvaluationOptions
from scenario_lib.learning.trajectories import write_rollouts
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.metrics.voltage import measure_voltages
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.controller import always_smallest
from scenario_lib.simulation.engines import run_rollout


@pytest.fixture(scope="module")
def options(specs_dir: Path) -> EvaluationOptions:
    return EvaluationOptions(baselines=("none", "ofo"), records=2, specs_dir=specs_dir)


def test_every_second_of_every_rollout(library_path: Path, specs_dir: Path, tmp_path: Path, options) -> None:
    told: list[tuple[int, int]] = []
    written = write_rollouts(
        library_path, tmp_path / "r.parquet", options, voltages=True, show=lambda *at: told.append(at)
    )
    assert (written.rollouts, written.failed, told[-1]) == (4, (), (4, 4))
    file = pq.ParquetFile(tmp_path / "r.parquet")
    assert file.num_row_groups == 4
    table = file.read().to_pandas()
    assert table.groupby(["seed", "control"], sort=False).size().to_dict() == dict.fromkeys(
        [(7, "none"), (7, "ofo"), (6007, "none"), (6007, "ofo")], 3600
    )
    library, experiment = ScenarioLibrary(library_path), load_experiment("ieee13")
    played = run_rollout(
        library.materialize(library[0]), experiment, load_assets(experiment, specs_dir), "ofo", engine="compiled"
    )
    rows = table[(table["seed"] == 7) & (table["control"] == "ofo")]
    assert rows["second"].tolist() == list(range(3600))
    measures = measure_voltages(played.voltages_pu, 0.95, 1.05)
    assert rows["violation_pu"].sum() == pytest.approx(measures.integral_pu_s, rel=1e-12)
    assert rows["lowest_pu"].tolist() == played.voltages_pu.min(axis=1).tolist()
    assert rows["power_w/default/b"].tolist() == played.power_w[:, 0, 1].tolist()
    for column, (site, label) in enumerate(played.model_labels):
        assert rows[f"batch_size/{site}/{label}"].tolist() == played.batch_sizes[:, column].tolist()
        assert np.array_equal(rows[f"itl_s/{site}/{label}"], played.itl_s[:, column], equal_nan=True)
    assert np.stack(rows["voltages_pu"]).tolist() == played.voltages_pu.astype(np.float32).tolist()


def test_rewards_are_those_of_the_environment(library_path: Path, specs_dir: Path, tmp_path: Path) -> None:
    options = EvaluationOptions(baselines=("none",), records=1, specs_dir=specs_dir)
    write_rollouts(library_path, tmp_path / "r.parquet", options)
    table = pq.read_table(tmp_path / "r.parquet").to_pandas()
    env = make_shared_batch_size_env(library_path, specs_dir, truncate_episode=False, total_duration_s=40)
    env.reset(options={"scenario": 7})
    for second in range(1, 30):
        _, reward, _, _, info = env.step(np.ones(5, int))
        row = table.iloc[second]
        assert row["reward"] == pytest.approx(reward, rel=1e-9, abs=1e-12)
        for name in ("voltage", "throughput", "latency", "switch", "safe"):
            assert row[f"reward/{name}"] == pytest.approx(info["reward_components"][name], rel=1e-9, abs=1e-12)


def test_the_bytes_are_the_same_for_any_workers(library_path: Path, tmp_path: Path, options) -> None:
    for jobs in (1, 2):
        write_rollouts(library_path, tmp_path / f"{jobs}.parquet", replace(options, run=RunOptions(jobs=jobs)))
    write_rollouts(library_path, tmp_path / "1.parquet", options)
    assert (tmp_path / "1.parquet").read_bytes() == (tmp_path / "2.parquet").read_bytes()


def test_only_what_is_ours_is_replaced(library_path: Path, tmp_path: Path, options) -> None:
    for name, content in (("thesis.parquet", b"words"), ("empty.parquet", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BuildRefusedError, match="is there, and is no table of rollouts"):
            write_rollouts(library_path, tmp_path / name, options)
        assert (tmp_path / name).read_bytes() == content
    with pytest.raises(BuildRefusedError, match="lies inside the library"):
        write_rollouts(library_path, library_path / "r.parquet", options)


def test_nothing_but_failures_leaves_no_file(library_path: Path, tmp_path: Path, specs_dir: Path) -> None:
    options = EvaluationOptions(
        baselines=(), controllers=(always_smallest,), records=1, specs_dir=specs_dir, run=RunOptions(timeout_s=1e-3)
    )
    with pytest.raises(InvalidSettingError, match=r"no rollout succeeded; the first failed so"):
        write_rollouts(library_path, tmp_path / "r.parquet", options)
    assert list(tmp_path.iterdir()) == []

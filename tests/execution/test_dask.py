"""Tasks on a real Dask cluster: the same outcomes as here, whatever happens to its workers."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sample_tasks
from dask_cluster import N_WORKERS, dask_cluster, dask_scheduler, dask_worker
from portable_tasks import CannotPrepare, KillsItsHost, Plain, Reading
from worker_processes import is_running, workers_of

from scenario_lib.errors import ClusterError, MissingExtraError
from scenario_lib.execution import cluster
from scenario_lib.execution.options import DIED_TWICE, Cluster, RunOptions, TaskOutcome
from scenario_lib.execution.tasks import run_tasks

pytest.importorskip("distributed", reason="needs the extra 'dask'")


@pytest.fixture(scope="module")
def on_dask(dask_address: str) -> RunOptions:
    return RunOptions(timeout_s=20, cluster=Cluster("dask", dask_address))


def without_seconds(outcomes: Iterator[TaskOutcome]) -> list[TaskOutcome]:
    return sorted((replace(outcome, seconds=0.0, worker="") for outcome in outcomes), key=lambda outcome: outcome.task)


@pytest.mark.parametrize(
    ("function", "limits"),
    [
        (sample_tasks.raise_on_two, {}),
        (sample_tasks.exit_on_two, {}),
        (sample_tasks.die_on_two, {}),
        (sample_tasks.loop_on_two, {"timeout_s": 0.3}),
        (sample_tasks.hang_on_two, {"timeout_s": 0.3, "grace_s": 0.3}),
        (sample_tasks.thread_variables, {}),
    ],
)
def test_outcomes_are_those_of_a_local_run(on_dask: RunOptions, function, limits: dict[str, float]) -> None:
    tasks = [1, 2, 3, 4]
    here = without_seconds(run_tasks(function, tasks, RunOptions(**limits)))
    assert without_seconds(run_tasks(Plain(function), tasks, replace(on_dask, **limits))) == here


def test_files_go_to_each_worker_once_and_are_read_there(on_dask: RunOptions, tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("a user's own file")

    def tasks() -> Iterator[int]:
        file.unlink()  # packed before the first task is read
        yield from range(12)

    results = [outcome.result for outcome in run_tasks(Reading(path=file), tasks(), on_dask)]
    assert sorted(task for task, *_ in results) == list(range(12))
    assert {content for _, content, _, _ in results} == {"a user's own file"}
    folders = {(folder, worker) for _, _, folder, worker in results}
    assert len(folders) == len({worker for _, worker in folders}) == N_WORKERS, "one folder a worker"
    assert str(tmp_path) not in {folder for folder, _ in folders}


def test_a_worker_of_the_cluster_that_is_killed_loses_no_task(on_dask: RunOptions, tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("again")
    seen, workers = [], set()
    for outcome in run_tasks(Reading(path=file), range(16), on_dask):
        seen.append(outcome.task)
        assert outcome.failure is None
        workers.add(outcome.result[3])
        if len(seen) == 3:
            os.kill(outcome.result[3], signal.SIGKILL)
    assert sorted(seen) == list(range(16))
    assert len(workers) >= 2


def test_a_task_that_takes_the_clusters_workers_along_is_a_failure(on_dask: RunOptions) -> None:
    assert list(run_tasks(KillsItsHost(len), ["task"], on_dask)) == [TaskOutcome("task", failure=DIED_TWICE)]


def test_tasks_are_read_no_faster_than_the_cluster_runs_them(on_dask: RunOptions) -> None:
    read: list[int] = []
    finished: list[int] = []

    def until_five_are_done() -> Iterator[int]:
        for number in range(1000):
            if len(finished) >= 5:
                return
            read.append(number)
            yield number

    for outcome in run_tasks(Plain(sample_tasks.square_slowly), until_five_are_done(), on_dask):
        finished.append(outcome.task)
        assert outcome.result == outcome.task**2
    assert 5 <= len(read) <= 5 + 4 * N_WORKERS
    assert sorted(finished) == read


def test_a_run_that_is_left_early_leaves_the_cluster_free(on_dask: RunOptions) -> None:
    outcomes = run_tasks(Plain(sample_tasks.sleep_seconds), [0.0, 0.5, 0.6, 0.7, 60.0, 61.0, 62.0], on_dask)
    assert next(outcomes).task == 0.0
    outcomes.close()
    assert [outcome.result for outcome in run_tasks(Plain(sample_tasks.raise_on_two), [1], on_dask)] == [1]


def test_a_worker_with_other_versions_is_refused(on_dask: RunOptions, monkeypatch) -> None:
    here = cluster.identity(("numpy",))
    monkeypatch.setattr(cluster, "identity", lambda _: {**here, "numpy": "1.0"})
    text = rf"cannot give the same results: .*: numpy {here['numpy']} instead of 1\.0; install the same versions there"
    with pytest.raises(ClusterError, match=text):
        cluster.require_usable(on_dask.cluster, ("numpy",))
    with pytest.raises(ClusterError, match=text):
        list(run_tasks(Plain(len), ["task"], on_dask))


def test_equal_versions_are_not_refused(on_dask: RunOptions) -> None:
    cluster.require_usable(on_dask.cluster, ("numpy", "scenario-lib"))


def test_a_worker_that_cannot_prepare_ends_the_run(on_dask: RunOptions) -> None:
    with pytest.raises(ClusterError, match="cannot prepare for the tasks: FileNotFoundError: no compiler"):
        list(run_tasks(CannotPrepare(len), ["task"], on_dask))


def test_only_portable_functions_go_to_a_cluster(on_dask: RunOptions) -> None:
    with pytest.raises(TypeError, match="does not say which files it reads"):
        list(run_tasks(len, ["task"], on_dask))


def test_without_the_extra_the_remedy_is_named(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "scenario_lib.execution.dask_backend", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"backend dask needs distributed: pip install 'scenario-lib\[dask\]'"):
        cluster.require_usable(Cluster("dask", "tcp://127.0.0.1:1"), ())


def test_nobody_at_the_address(monkeypatch) -> None:
    from scenario_lib.execution import dask_backend as on_dask

    monkeypatch.setattr(on_dask, "_PATIENCE_S", 1)
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        with pytest.raises(ClusterError, match=f"no Dask scheduler answers at {address} .*start one with"):
            cluster.require_usable(Cluster("dask", address), ())


def test_a_worker_that_ends_leaves_nothing_and_waits_for_nobody(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("a user's own file")
    with dask_cluster(tmp_path) as address:
        options = RunOptions(cluster=Cluster("dask", address))
        outcomes = list(run_tasks(Reading(path=file), range(6), options))
        folders = {Path(outcome.result[2]).parents[1] for outcome in outcomes}
        assert all(folder.is_dir() for folder in folders)
        processes = [process for host in {outcome.result[3] for outcome in outcomes} for process in workers_of(host)]
        assert len(processes) == N_WORKERS, "they wait for more tasks"
        assert all(map(is_running, processes))
    assert not any(map(is_running, processes))
    assert not any(folder.exists() for folder in folders)


def test_a_run_begins_with_the_first_worker_grows_with_the_cluster_and_outlives_a_loss(tmp_path: Path, caplog) -> None:
    """No worker, then one, then three, then two: every task has its outcome, and a late worker has the file too."""
    caplog.set_level("INFO", "scenario_lib")
    file = tmp_path / "mine.txt"
    file.write_text("a user's own file")
    with dask_scheduler(tmp_path) as (address, _), contextlib.ExitStack() as workers:
        options = RunOptions(cluster=Cluster("dask", address))

        def start(number: int) -> subprocess.Popen:
            return workers.enter_context(dask_worker(address, tmp_path / f"worker{number}"))

        threading.Timer(1.0, start, [1]).start()
        cluster.require_usable(options.cluster, ("numpy",))
        seen, ran_on, first = [], [], None
        for outcome in run_tasks(Reading(path=file), range(60), options):
            seen.append(outcome.task)
            assert outcome.failure is None
            assert outcome.result[1] == "a user's own file"
            ran_on.append(outcome.worker)
            if len(seen) == 3:
                assert len(set(ran_on)) == 1
                first = outcome.result[3]
                start(2)
                start(3)
            if len(set(ran_on)) == 3 and first is not None:
                os.kill(first, signal.SIGKILL)
                first = None
    assert sorted(seen) == list(range(60))
    assert first is None, "three workers took part"
    messages = [record.getMessage() for record in caplog.records]
    assert f"the Dask scheduler at {address} has no worker; waiting for one, Ctrl-C stops." in messages[0]
    assert any("1 worker(s) on 1 host(s)" in message for message in messages)
    assert any("3 worker(s) on 1 host(s)" in message for message in messages)


def test_a_number_of_workers_is_waited_for(on_dask: RunOptions, monkeypatch) -> None:
    cluster.require_usable(Cluster("dask", on_dask.cluster.address, wait_workers=N_WORKERS), ())

    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cluster.require_usable(Cluster("dask", on_dask.cluster.address, wait_workers=N_WORKERS + 1), ())


def test_a_scheduler_that_ends(tmp_path: Path) -> None:
    with (
        dask_scheduler(tmp_path) as (address, process),
        dask_worker(address, tmp_path / "worker", "--no-nanny") as worker,
    ):
        options = RunOptions(cluster=Cluster("dask", address))
        outcomes = run_tasks(Plain(sample_tasks.sleep_seconds), [0.0, 0.1, 30.0, 31.0], options)
        assert next(outcomes).task == 0.0
        process.kill()
        with pytest.raises(ClusterError, match=f"the Dask scheduler at {address} is gone .*with --resume"):
            list(outcomes)
        worker.kill()

"""What becomes of tasks that raise, run too long, or kill their worker, and of those beside them."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sample_tasks
from worker_processes import workers_of

from scenario_lib.errors import InvalidSettingError
from scenario_lib.execution.tasks import ERROR, TIMEOUT, WORKER_DIED, RunOptions, TaskFailure, TaskOutcome, run_tasks
from scenario_lib.execution.worker import done_beside

both_job_counts = pytest.mark.parametrize("jobs", [1, 2])


def outcomes_by_task(function: Callable[[Any], Any], tasks: list[Any], options: RunOptions) -> dict[Any, TaskOutcome]:
    outcomes = list(run_tasks(function, tasks, options))
    assert sorted(outcome.task for outcome in outcomes) == sorted(tasks), "each task has exactly one outcome"
    return {outcome.task: outcome for outcome in outcomes}


def assert_only_two_failed(outcomes: dict[int, TaskOutcome], failure: TaskFailure) -> None:
    assert outcomes[2].failure == failure
    assert outcomes[2].result is None
    others = {task: outcome for task, outcome in outcomes.items() if task != 2}
    assert {task: (outcome.result, outcome.failure) for task, outcome in others.items()} == {
        task: (task, None) for task in others
    }


@both_job_counts
def test_every_task_has_its_result_and_its_time(jobs: int) -> None:
    outcomes = outcomes_by_task(sample_tasks.sleep_seconds, [0.0, 0.05, 0.1], RunOptions(jobs=jobs))
    assert {task: outcome.result for task, outcome in outcomes.items()} == {0.0: 0.0, 0.05: 0.05, 0.1: 0.1}
    assert 0.1 <= outcomes[0.1].seconds < 5
    assert all(outcome.failure is None for outcome in outcomes.values())


@both_job_counts
def test_no_tasks_no_outcomes(jobs: int) -> None:
    assert list(run_tasks(sample_tasks.square_slowly, [], RunOptions(jobs=jobs))) == []


@both_job_counts
def test_a_task_that_raises_is_one_failure_without_a_traceback(jobs: int) -> None:
    outcomes = outcomes_by_task(sample_tasks.raise_on_two, [1, 2, 3, 4], RunOptions(jobs=jobs))
    assert_only_two_failed(outcomes, TaskFailure(ERROR, "ValueError: two is not allowed"))


@both_job_counts
def test_a_task_that_exits_does_not_take_the_run_along(jobs: int) -> None:
    outcomes = outcomes_by_task(sample_tasks.exit_on_two, [1, 2, 3, 4], RunOptions(jobs=jobs))
    assert_only_two_failed(outcomes, TaskFailure(ERROR, "SystemExit: 3"))


@both_job_counts
def test_an_endless_loop_ends_at_the_timeout(jobs: int) -> None:
    outcomes = outcomes_by_task(sample_tasks.loop_on_two, [1, 2, 3], RunOptions(jobs=jobs, timeout_s=0.5))
    assert_only_two_failed(outcomes, TaskFailure(TIMEOUT, "took longer than 0.5 s"))
    assert 0.5 <= outcomes[2].seconds < 5


@both_job_counts
def test_a_hang_in_native_code_ends_after_the_grace(jobs: int) -> None:
    started = time.monotonic()
    options = RunOptions(jobs=jobs, timeout_s=0.3, grace_s=0.3)
    outcomes = outcomes_by_task(sample_tasks.hang_on_two, [1, 2, 3], options)
    assert_only_two_failed(outcomes, TaskFailure(TIMEOUT, "took longer than 0.3 s, in native code"))
    assert time.monotonic() - started < 30, "the hang itself lasts 60 s"


@both_job_counts
def test_a_killed_worker_harms_its_own_task_only(jobs: int) -> None:
    outcomes = outcomes_by_task(sample_tasks.die_on_two, [0, 1, 2, 3, 4, 5], RunOptions(jobs=jobs))
    died = "its worker process ended without a result, twice; out of memory, or a crash"
    assert_only_two_failed(outcomes, TaskFailure(WORKER_DIED, died))


def test_a_death_before_any_time_limit_is_not_called_a_timeout() -> None:
    options = RunOptions(jobs=1, timeout_s=60)
    assert outcomes_by_task(sample_tasks.die_on_two, [2], options)[2].failure.code == WORKER_DIED


def test_many_dying_workers_lose_no_task() -> None:
    tasks = list(range(12))
    outcomes = outcomes_by_task(sample_tasks.die_on_every_third, tasks, RunOptions(jobs=2))
    assert [task for task in tasks if outcomes[task].failure] == [2, 5, 8, 11]
    assert [outcomes[task].result for task in (0, 1, 3, 4, 6, 7, 9, 10)] == [0, 1, 3, 4, 6, 7, 9, 10]


@both_job_counts
def test_a_task_whose_worker_died_once_is_tried_again(jobs: int, tmp_path: Path) -> None:
    markers = [str(tmp_path / "first"), str(tmp_path / "second")]
    Path(markers[1]).touch()
    outcomes = outcomes_by_task(sample_tasks.die_the_first_time, markers, RunOptions(jobs=jobs))
    assert {outcome.result for outcome in outcomes.values()} == {"done"}
    assert Path(markers[0]).exists()


@both_job_counts
def test_tasks_are_read_no_faster_than_they_are_run(jobs: int) -> None:
    read: list[int] = []
    finished: list[int] = []

    def until_five_are_done() -> Iterator[int]:
        for number in range(1000):
            if len(finished) >= 5:
                return
            read.append(number)
            yield number

    for outcome in run_tasks(sample_tasks.square_slowly, until_five_are_done(), RunOptions(jobs=jobs)):
        finished.append(outcome.task)
        assert outcome.result == outcome.task**2
    assert 5 <= len(read) <= 5 + 4 * jobs
    assert sorted(finished) == read, "all that was read was run"


@both_job_counts
def test_workers_have_one_thread(jobs: int) -> None:
    outcomes = outcomes_by_task(sample_tasks.thread_variables, [1, 2], RunOptions(jobs=jobs))
    for outcome in outcomes.values():
        for library in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA"):
            assert outcome.result[f"{library}_NUM_THREADS"] == "1"


@both_job_counts
def test_tasks_run_in_worker_processes_and_none_is_left(jobs: int) -> None:
    outcomes = outcomes_by_task(sample_tasks.process_and_parent, [1, 2, 3, 4], RunOptions(jobs=jobs))
    processes = {outcome.result[0] for outcome in outcomes.values()}
    assert os.getpid() not in processes
    assert 1 <= len(processes) <= jobs
    assert {outcome.result[1] for outcome in outcomes.values()} == {os.getpid()}
    assert workers_of(os.getpid()) == []


@pytest.mark.filterwarnings("error:.*still being processed by the workers:UserWarning")  # joblib's, of a left run
@both_job_counts
def test_a_run_that_is_left_early_leaves_no_worker(jobs: int) -> None:
    outcomes = run_tasks(sample_tasks.sleep_seconds, [0.0, 60.0, 60.5], RunOptions(jobs=jobs))
    assert next(outcomes).task == 0.0
    assert len(workers_of(os.getpid())) == jobs
    started = time.monotonic()
    outcomes.close()
    assert workers_of(os.getpid()) == []
    assert time.monotonic() - started < 10, "nobody waits for the task under way"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"jobs": 0}, "jobs is 0; expected at least 1"),
        ({"timeout_s": 0.0}, "timeout_s is 0.0; expected a finite number of seconds above 0"),
        ({"timeout_s": -1.0}, "timeout_s is -1.0; expected a finite number of seconds above 0"),
        ({"timeout_s": float("nan")}, "timeout_s is nan; expected a finite number of seconds above 0"),
        ({"grace_s": float("inf")}, "grace_s is inf; expected a finite number of seconds above 0"),
    ],
)
def test_options_are_checked(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidSettingError, match=text):
        RunOptions(**options)


def test_a_task_beside_a_block_is_done_when_the_block_ends_and_none_is_left_where_it_fails(tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs a second core")
    marker = tmp_path / "marker"
    with done_beside(sample_tasks.write_file, str(marker)):
        pass
    assert marker.read_text() == "written"
    with done_beside(sample_tasks.die_on_two, 2):
        pass
    with pytest.raises(KeyboardInterrupt), done_beside(sample_tasks.sleep_seconds, 60.0):
        while not workers_of(os.getpid()):
            time.sleep(0.05)
        raise KeyboardInterrupt
    assert workers_of(os.getpid()) == []

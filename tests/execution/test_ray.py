"""Tasks on Ray, started on this machine; skipped where Ray is not installed, as in CI."""

import os
import signal
from pathlib import Path

import pytest
import sample_tasks
from portable_tasks import Plain, Reading

from scenario_lib.errors import ClusterError
from scenario_lib.execution.options import DIED_TWICE, Cluster, RunOptions
from scenario_lib.execution.tasks import require_usable, run_tasks

pytest.importorskip("ray", reason="needs the extra 'ray'")
ON_RAY = RunOptions(timeout_s=20, cluster=Cluster("ray"))


@pytest.fixture(autouse=True, scope="module")
def _samples_are_importable() -> None:
    """By Ray's workers, which inherit the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        yield


def test_outcomes_are_those_of_a_local_run_even_of_tasks_that_die() -> None:
    outcomes = {outcome.task: outcome for outcome in run_tasks(Plain(sample_tasks.die_on_two), range(40), ON_RAY)}
    assert outcomes.pop(2).failure == DIED_TWICE
    assert {task: outcome.result for task, outcome in outcomes.items()} == {n: n for n in range(40) if n != 2}


def test_files_travel_and_a_killed_worker_loses_no_task(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("a user's own file")

    def tasks():
        file.unlink()
        yield from range(60)

    seen = []
    for outcome in run_tasks(Reading(path=file), tasks(), ON_RAY):
        seen.append(outcome.task)
        assert outcome.result[1] == "a user's own file"
        if len(seen) == 1:
            os.kill(outcome.result[3], signal.SIGKILL)
    assert sorted(seen) == list(range(60))


def test_nobody_at_the_address() -> None:
    with pytest.raises(ClusterError, match=r"no Ray cluster answers at 127\.0\.0\.1:1 .*start one with 'ray start"):
        require_usable(Cluster("ray", "127.0.0.1:1"), ())

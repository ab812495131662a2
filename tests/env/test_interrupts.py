"""Environments that are interrupted, and processes that fork, while a thread compiles the next episodes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from env_samples import make_vec

from scenario_lib.errors import EnvironmentUseError

HERE = Path(__file__).parent
SHORT = {"truncate_episode": False, "total_duration_s": 7}

_INTERRUPTED = """
import os, signal, sys, threading
import numpy as np
from env_samples import make_vec
from scenario_lib.simulation.compiled.episode import EPISODES
from scenario_lib.errors import EnvironmentUseError

EPISODES.resize(0)  # every episode is compiled anew
settings = dict(truncate_episode=False, total_duration_s=7, autoreset_mode="SameStep")
settings.update(threads=int(sys.argv[1]), prefetch=sys.argv[2] == "prefetch")
actions = np.random.default_rng(0).integers(0, 3, (12, 4, 5))

def played(env):
    out = [env.reset(seed=5)[0].tobytes()]
    return out + [env.step(action)[0].tobytes() for action in actions]

wanted = played(make_vec(4, **settings))
env = make_vec(4, **settings)
signal.signal(signal.SIGINT, signal.default_int_handler)
interrupted = 0
for delay in np.random.default_rng(1).uniform(1e-4, 0.05, 20):
    try:
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
        while True:
            played(env)
    except KeyboardInterrupt:
        interrupted += 1
    if interrupted % 7 == 0:
        try:
            env.step(actions[0])
        except EnvironmentUseError as error:
            assert "interrupted" in str(error) or "before reset" in str(error), error
assert played(env) == wanted
print("played on after", interrupted)
"""

_FORKED = """
import hashlib, os, sys
import numpy as np
from env_samples import make_vec
from scenario_lib.simulation.compiled.episode import EPISODES

EPISODES.resize(0)
settings = dict(truncate_episode=False, total_duration_s=7, prefetch=True, threads=int(sys.argv[1]))
env = make_vec(4, **settings)
env.reset(seed=5)
actions = np.random.default_rng(0).integers(0, 3, (25, 4, 5))

def played(env):
    return b"".join(env.step(action)[0].tobytes() for action in actions)

for _ in range(4):
    env.reset(seed=5)  # the thread is at work
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, hashlib.sha256(played(env)).digest())
        os._exit(0)
    os.close(writing)
    assert os.read(reading, 65536) == hashlib.sha256(played(env)).digest()
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
print("children played too")
"""


def run(program, *arguments):
    command = [sys.executable, "-X", "faulthandler", "-c", program, *arguments]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("prefetch", ["prefetch", "alone"])
@pytest.mark.parametrize("threads", ["1", "2"])
def test_interrupts_in_the_midst_of_resets_and_steps(threads, prefetch):
    done = run(_INTERRUPTED, threads, prefetch)
    assert (done.returncode, done.stdout) == (0, "played on after 20\n"), done.stderr


@pytest.mark.parametrize("threads", ["1", "2"])
def test_forked_children_go_on(threads):
    done = run(_FORKED, threads)
    assert (done.returncode, done.stdout) == (0, "children played too\n"), done.stderr


@pytest.mark.parametrize("where", ["reset", "step"])
def test_after_an_interrupt_a_reset_begins_anew(monkeypatch, where):
    env = make_vec(2, prefetch=True, **SHORT)
    wanted = env.reset(seed=3)[0].tobytes()

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(env, "_observations", interrupt)
        with pytest.raises(KeyboardInterrupt):
            env.reset(seed=4) if where == "reset" else env.step(np.ones((2, 5), int))
    with pytest.raises(EnvironmentUseError, match="was interrupted, which ended all episodes; call reset first"):
        env.step(np.ones((2, 5), int))
    with pytest.raises(EnvironmentUseError, match="never reset"):
        env.reset(options={"reset_mask": np.array([True, False])})
    assert env.reset(seed=3)[0].tobytes() == wanted
    env.step(np.ones((2, 5), int))
    env.close()

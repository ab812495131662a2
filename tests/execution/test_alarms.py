"""The alarm of a time limit comes at any moment of a loop over kernels, and is only ever a timeout."""

import subprocess
import sys

ALARMS = """
import numpy as np

from scenario_lib.errors import TaskTimeoutError
from scenario_lib.execution.process import deadline
from scenario_lib.simulation.compiled.controllers import OFOSettings, OFOState, update_voltage_duals

settings = OFOSettings(0.05, 0.1, 0.0, 1e6, 0.95, 1.05, 0.5, 1.0, 0, 100.0)
voltages_pu = np.full(40, 0.94)
arrays = [np.zeros(shape) for shape in ((4,), (4,), (4,), (1, 40), (1, 40), (1, 40, 3))]


def play():
    while True:
        state = OFOState(*arrays)
        update_voltage_duals(settings, state, 0, voltages_pu)


update_voltage_duals(settings, OFOState(*arrays), 0, voltages_pu)
timeouts = 0
for round_ in range(400):
    try:
        with deadline(0.002 + 0.0000137 * round_, 20.0):
            play()
    except TaskTimeoutError:
        timeouts += 1
print(timeouts)
"""


def test_an_alarm_among_kernels_is_a_timeout_and_nothing_else() -> None:
    ended = subprocess.run([sys.executable, "-c", ALARMS], capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "400\n"), ended.stderr[-2000:]


DISPATCH = """
import signal, sys, types

from scenario_lib.errors import TaskTimeoutError
from scenario_lib.execution.process import deadline

numba = types.ModuleType("numba.core.dispatcher")
exec("def dispatch(inner):\\n    inner()\\n    seen.append('whole')", numba.__dict__)
numba.seen = []


def inner():
    signal.raise_signal(signal.SIGALRM)
    numba.seen.append("interrupted")


try:
    with deadline(60, 20.0):
        numba.dispatch(inner)
        while True:
            pass
except TaskTimeoutError as error:
    print(numba.seen, error)
"""


def test_an_alarm_within_numbas_own_code_waits_for_its_end() -> None:
    ended = subprocess.run([sys.executable, "-c", DISPATCH], capture_output=True, text=True, check=False, timeout=60)
    assert ended.stdout == "['interrupted', 'whole'] took longer than 60 s\n", ended.stderr[-2000:]

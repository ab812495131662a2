"""OpenDSS is one engine a process: who uses it, and how it reads a circuit as if it were its first.

Whoever calls OpenDSS holds its lock, so that threads wait for each other. Whoever compiles a circuit does it within
`reading`, which also ends the simulation that had the engine before.
"""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from opendssdirect import DSSException
from openg2g.grid.opendss import dss

from scenario_lib._parsing import data_dir
from scenario_lib.errors import DataFileError
from scenario_lib.feeders.circuit_files import circuit_home
from scenario_lib.simulation.opendss.circuit_trial import copied, require_harmless

# Options that OpenDSS keeps over `ClearAll`, as they are in a fresh process; all others a new circuit starts anew.
_OPTIONS = {
    "DefaultBaseFrequency": "60",
    "Editor": "true",
    "DaisySize": "1",
    "EventLogDefault": "No",
    "SeasonRating": "No",
    "SeasonSignal": "none",
    "ShowExport": "No",
    "ShowReports": "No",
    "Parallel": "No",
    "ConcatenateReports": "No",
    "Recorder": "No",
    "QueryLog": "No",
}
# Options of a circuit that have OpenDSS write files while it solves.
_WRITING = ("DemandInterval", "TraceControl", "Log", "Recorder", "QueryLog")

_LEAST_PU, _DEAD_SHARE = 0.1, 0.75
"""No feeder is run so low; neutrals, and what is behind open switches, are never three quarters of its nodes."""


class _Engine:
    """The lock of OpenDSS, and how many circuits it has been given."""

    def __init__(self) -> None:
        self.circuits = 0
        self.renew_lock()

    def renew_lock(self) -> None:
        """After a fork the thread that held it may not exist."""
        self.lock = threading.RLock()


_engine = _Engine()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_engine.renew_lock)


@contextmanager
def opendss_held() -> Iterator[None]:
    """Alone with OpenDSS: other threads of this process wait; the thread that is in it may enter again."""
    with _engine.lock:
        yield


def circuits_read() -> int:
    """How many circuits this process has given to OpenDSS: a simulation whose number has passed has lost its own."""
    return _engine.circuits


@contextmanager
def reading(circuit: Path) -> Iterator[Path]:
    """Around compiling: gives the path to compile, in an OpenDSS that is as in a fresh process.

    A circuit that does not ship is compiled from a copy without its commands that write files, after a trial.

    Raises:
        MissingDataError: A file that the circuit needs is not there.
        DataFileError: It includes itself or files from elsewhere, crashes OpenDSS or hangs, or, from within the
            block, OpenDSS cannot compile it.
    """
    with opendss_held():
        shipped = circuit.resolve().is_relative_to(data_dir().resolve())
        if not shipped:
            require_harmless(circuit)
        with copied(circuit, shipped) as readable:
            _engine.circuits += 1
            _make_fresh()
            try:
                yield readable
            except DSSException as error:
                told = str(error).replace(str(readable.parent), str(circuit.parent))
                told = told.replace(str(circuit_home(readable)), str(circuit_home(circuit)))
                raise DataFileError(f"{circuit}: OpenDSS cannot compile it: {told}") from None
            finally:
                _write_nothing()


def compile_circuit(circuit: Path) -> None:
    """Make a circuit OpenDSS's active one; to be called with OpenDSS held for as long as the circuit is used.

    Raises:
        MissingDataError, DataFileError: As from `reading`.
    """
    with reading(circuit) as readable:
        dss.Text.Command(f'Compile "{readable}"')


def require_voltage(circuit: Path) -> None:
    """Refuse the active circuit, just solved, if hardly a node has a voltage.

    Raises:
        DataFileError: Naming the circuit's source.
    """
    high_pu = float(np.quantile(dss.Circuit.AllBusMagPu(), _DEAD_SHARE))
    if not high_pu >= _LEAST_PU:
        raise DataFileError(
            f"{circuit}: its source gives no voltage (three quarters of all nodes are at {high_pu:.2g} pu or below); "
            f"look at bus1, basekv, pu, frequency and enabled of Vsource.source, and at DefaultBaseFrequency"
        )


def _make_fresh() -> None:
    dss.Basic.AllowEditor(False)
    dss.Basic.AllowForms(False)
    dss.Basic.AllowDOScmd(False)
    dss.Basic.AllowChangeDir(False)  # the working directory belongs to all threads
    dss.Basic.CompatFlags(0)
    dss.Basic.ClearAll()
    dss.Text.Command("New Circuit.none")  # without a circuit OpenDSS takes few options
    for option, value in _OPTIONS.items():
        dss.Text.Command(f"Set {option}={value}")
    dss.Text.Command(f'Set DataPath="{tempfile.gettempdir()}"')
    dss.Basic.ClearAll()


def _write_nothing() -> None:
    if dss.Basic.NumCircuits():
        for option in _WRITING:
            dss.Text.Command(f"Set {option}=No")
    dss.Text.Command(f'Set DataPath="{tempfile.gettempdir()}"')

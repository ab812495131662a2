"""A stranger's circuit is read by another process first: what crashes OpenDSS or hangs it must not take ours along.

`python -m scenario_lib.simulation.circuit_trial CIRCUIT` is that process. What OpenDSS says about the circuit does not
matter there; it says so again to whoever asked.
"""

import contextlib
import subprocess
import sys
from pathlib import Path

from scenario_lib.errors import DataFileError, ScenarioLibError
from scenario_lib.feeders.circuit_files import current_digest
from scenario_lib.simulation.circuit_copy import copied

DEADLINE_S = 60.0
_harmless: set[tuple[Path, str]] = set()
"""Circuits that were tried in this process, with the digests of their files."""


def require_harmless(circuit: Path) -> None:
    """Try a circuit, once in this process as long as its files stay as they are.

    Raises:
        MissingDataError, DataFileError: As from `circuit_files`, or the circuit crashes OpenDSS, or hangs.
    """
    key = (circuit.resolve(), current_digest(circuit))
    if key not in _harmless:
        _try(circuit)
        _harmless.add(key)


def _try(circuit: Path) -> None:
    command = [sys.executable, "-m", __name__, str(circuit.resolve())]
    try:
        tried = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        raise DataFileError(
            f"{circuit}: OpenDSS was not done with it after {DEADLINE_S:g} s; expected a circuit that is defined, not "
            f"one that simulates or redirects without an end"
        ) from None
    if tried.returncode < 0:
        raise DataFileError(
            f"{circuit}: OpenDSS crashes on it (signal {-tried.returncode}); look for what it redirects to and computes"
        )


def _main(circuit: Path) -> None:
    from opendssdirect import DSSException, dss

    dss.Basic.AllowEditor(False)
    dss.Basic.AllowForms(False)
    dss.Basic.AllowChangeDir(False)
    with contextlib.suppress(DSSException, ScenarioLibError), copied(circuit, shipped=False) as readable:
        dss.Text.Command(f'Compile "{readable}"')
        dss.Solution.SolveNoControl()


if __name__ == "__main__":
    _main(Path(sys.argv[1]))

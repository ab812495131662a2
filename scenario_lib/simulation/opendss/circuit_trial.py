"""A circuit to compile without leaving a trace: a copy in a scratch folder, less the commands that write files.

A circuit is a program. Reports, plots and logs are no part of a feeder, so they are taken out, whatever they name.

A stranger's circuit is read by another process first: what crashes OpenDSS or hangs it must not take ours along.

`python -m scenario_lib.simulation.opendss.circuit_trial CIRCUIT` is that process. What OpenDSS says about the circuit
does not matter there; it says so again to whoever asked.
"""

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scenario_lib.errors import DataFileError, ScenarioLibError
from scenario_lib.feeders.circuit_files import circuit_home, circuit_parts, current_digest, shortened

_COMMANDS = (
    ("save", 2),
    ("show", 2),
    ("plot", 1),
    ("dump", 2),
    ("export", 2),
    ("exportoverloads", 7),
    ("exportvviolations", 7),
    ("fileedit", 1),
    ("formedit", 2),
    ("visualize", 2),
    ("help", 1),
    ("comhelp", 4),
    ("top", 3),
    ("panel", 2),
    ("alignfile", 2),
    ("uuids", 2),
    ("obfuscate", 2),
    ("doscmd", 2),
    ("cd", 2),
    ("quit", 1),
    ("summary", 2),
    ("di_plot", 2),
    ("comparecases", 5),
    ("yearlycurves", 1),
    ("cvrtloadshapes", 2),
    ("closedi", 6),
    ("newactor", 4),
    ("clone", 3),
    ("solveall", 6),
    ("wait", 1),
    ("abort", 3),
)
"""Commands that write files, start programs or threads, and how many letters of each name it to OpenDSS."""
_LEFT_OUT_OPTIONS = (
    ("datapath", 2),
    ("recorder", 3),
    ("querylog", 2),
    ("log", 3),
    ("tracecontrol", 2),
    ("demandinterval", 3),
    ("diverbose", 2),
    ("editor", 2),
    ("showexport", 2),
    ("showreports", 5),
    ("casename", 4),
    ("parallel", 2),
    ("activeactor", 2),
    ("numactors", 4),
)
_NAMES = "|".join(shortened(*command) for command in _COMMANDS)
_TAKEN_OUT = re.compile(rf"""^[ \t"'(\[{{]*(?:{_NAMES})(?=[\s,="')\]}}]|$).*$""", re.I | re.M)
_SET = re.compile(r"^[ \t]*set\b.*$", re.I | re.M)
_VALUE = r"""\s*=\s*(?:"[^"\n]*"|'[^'\n]*'|\([^)\n]*\)|\[[^\]\n]*\]|\{[^}\n]*\}|[^\s,]+)"""
_OPTION = re.compile(rf"\b(?:{'|'.join(shortened(*option) for option in _LEFT_OUT_OPTIONS)}){_VALUE}", re.I)
_MACHINE_CODE = re.compile(r"\b((?:user|shaft|ctrl)m(?:o(?:d(?:e(?:l)?)?)?)?|dynad(?:l(?:l)?)?)\s*=\s*([^\s,!]+)", re.I)
"""Properties of generators, storage and controls that name a library of machine code, which OpenDSS loads and runs."""
_COMMENT = re.compile(r"(?:!|//).*$", re.M)
_TRACE = re.compile(r"\bdebugt(?:r(?:a(?:ce?)?)?)?\s*=\s*\w+", re.I)


@contextmanager
def copied(circuit: Path, shipped: bool) -> Iterator[Path]:
    """The circuit file of a copy that is removed on leaving; a shipped one, which writes nothing, is its own.

    The copy keeps the layout of the files below the circuit's home.

    Raises:
        MissingDataError, DataFileError: As from `circuit_parts`.
    """
    if shipped:
        yield circuit
        return
    home = circuit_home(circuit)
    main = circuit.parent.resolve().relative_to(home) / circuit.name
    with tempfile.TemporaryDirectory(prefix="scenario-lib-circuit-") as folder:
        scratch = Path(folder).resolve()
        for path, is_script in circuit_parts(circuit):
            copy = scratch / (main if path == circuit else path.relative_to(home))
            copy.parent.mkdir(parents=True, exist_ok=True)
            if is_script:
                _require_no_machine_code(path)
                # Where it names files absolutely, it names the copies.
                script = path.read_bytes().replace(bytes(home) + b"/", bytes(scratch) + b"/")
                copy.write_bytes(_without_writing(script))
            else:
                shutil.copyfile(path, copy)
        yield scratch / main


def _require_no_machine_code(script: Path) -> None:
    found = _MACHINE_CODE.search(_COMMENT.sub("", script.read_bytes().decode("latin-1")))
    if found:
        raise DataFileError(
            f"{script}: {found[1]}={found[2][:80]} has OpenDSS load and run machine code; expected elements by "
            f"OpenDSS's own models only, so take the property out"
        )


def _without_writing(script: bytes) -> bytes:
    text = script.decode("latin-1")  # every byte is a character, and comes back as it was
    text = _TRACE.sub("", _TAKEN_OUT.sub("", text))
    return _SET.sub(lambda line: _bare_set(line.group()), text).encode("latin-1")


def _bare_set(line: str) -> str:
    left = _OPTION.sub("", line)
    return "" if left.strip().lower() == "set" else left


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

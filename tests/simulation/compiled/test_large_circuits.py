"""Circuits of thousands of nodes are read in memory and time that grow with their elements, not with nodes squared."""

import subprocess
import sys
from pathlib import Path

N_BUSES = 1200

READ = """
import resource
from pathlib import Path
from scenario_lib.simulation.compiled.circuit import why_not_modelled
from scenario_lib.simulation.opendss.hosting import BaseCase, started

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

with started(BaseCase(Path({circuit!r}))):
    before = peak_mb()
    print(why_not_modelled(), peak_mb() - before)
"""


def chain(n_buses: int) -> str:
    """A three-phase feeder of so many buses in a row, with a small load at every tenth."""
    lines = [
        "Clear",
        "New Circuit.chain basekv=12.47 bus1=b0",
        "New LineCode.c nphases=3 r1=0.1 x1=0.2 r0=0.3 x0=0.6 units=km",
    ]
    for i in range(1, n_buses):
        lines.append(f"New Line.l{i} bus1=b{i - 1} bus2=b{i} linecode=c length=0.004 units=km")
        if i % 10 == 0:
            lines.append(f"New Load.d{i} bus1=b{i} phases=3 kv=12.47 kw=4 kvar=1 model=1")
    return "\n".join([*lines, "Set VoltageBases=[12.47]", "CalcVoltageBases", "Solve", ""])


def test_a_dense_matrix_is_never_made(tmp_path: Path) -> None:
    circuit = tmp_path / "chain.dss"
    circuit.write_text(chain(N_BUSES), encoding="utf-8")
    code = READ.format(circuit=str(circuit))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    modelled, grown_mb = done.stdout.rsplit(maxsplit=1)
    assert modelled == "()"
    dense_mb = (3 * N_BUSES) ** 2 * 16 / 2**20
    assert float(grown_mb) < dense_mb / 2, f"a dense Y takes {dense_mb:.0f} MB"

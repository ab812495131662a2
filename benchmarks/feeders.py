"""A folder of circuits that nobody here wrote: does the compiled engine take each, and does it agree with OpenDSS?

    python benchmarks/feeders.py FOLDER [CIRCUIT ...]

Each circuit (a key of FOLDER's `expected.json`, or those named) gets a process of its own. OpenDSS starts it as `feeder
check` does; then both engines solve 60 seconds with a load that varies at the last three-phase bus of at least 1 kV.
Printed: nodes, seconds to read the circuit, milliseconds a power flow of each engine, the process's megabytes, the
largest voltage difference (pu), what rounding may explain of it, and the verdict. A circuit that does not converge
within its own iterations is refused, and tried again in a copy that may take 100.
"""

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from openg2g.grid.opendss import dss

from scenario_lib.errors import ScenarioLibError
from scenario_lib.simulation.compiled.circuit import Circuit, _read_active, start_state
from scenario_lib.simulation.compiled.circuit_reader import what_is_not_modelled
from scenario_lib.simulation.compiled.power_flow import OPENDSS, rebuild_admittance, solve_power_flow
from scenario_lib.simulation.opendss.hosting import PHASES, BaseCase, base_kv, phases_of, started

SECONDS = 60
_LEAST_KV = 1.0
_SHARE = 0.02  # of the circuit's power, that the load varies by


def main() -> None:
    """Print one line a circuit."""
    folder, *circuits = sys.argv[1:]
    if circuits == ["--one"]:
        print(_line(Path(folder)))
        return
    print(f"{'circuit':40} {'nodes':>5} {'read s':>6} {'ms':>7} {'DSS ms':>7} {'MB':>5} {'off pu':>7} {'limit':>7}")
    for circuit in circuits or json.loads((Path(folder) / "expected.json").read_text(encoding="utf-8")):
        said = _apart(Path(folder) / circuit)
        print(f"{circuit:40} {said}", flush=True)
        if "does not converge within" in said:
            print(f"{circuit + ', 100 iterations':40} {_with_more_iterations(Path(folder) / circuit)}", flush=True)


def _apart(circuit: Path) -> str:
    command = [sys.executable, __file__, str(circuit), "--one"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.stdout.strip("\n") or ended.stderr.strip().splitlines()[-1]


def _with_more_iterations(circuit: Path) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(circuit.parent, Path(scratch) / "copy") / circuit.name
        copy.chmod(0o644)
        with copy.open("a", encoding="latin-1") as stream:
            stream.write("\nSet MaxIterations=100\n")
        return _apart(copy)


def _line(circuit: Path) -> str:
    try:
        with started(BaseCase(circuit)):
            return _compared()
    except ScenarioLibError as error:
        return f"refused: {error}"


def _compared() -> str:
    nodes = int(dss.Circuit.NumNodes())
    found = what_is_not_modelled()
    if found:
        return f"{nodes:5}  reference engine: {'; '.join(found)}"
    names = _add_loads()
    began = time.perf_counter()
    circuit = _read_active((), [(name,) for name in names])
    read_s = time.perf_counter() - began
    off_pu, ours_ms, theirs_ms = _both_engines(circuit, names)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    verdict = "compiled" if off_pu <= circuit.agreement_pu else "DISAGREES"
    times = f"{read_s:6.1f} {ours_ms:7.3f} {theirs_ms:7.2f} {megabytes:5.0f}"
    return f"{nodes:5} {times} {off_pu:7.1e} {circuit.agreement_pu:7.1e}  {verdict}"


def _add_loads() -> list[str]:
    """Three loads of 0 kW at the last bus that can have them, in delta: not every feeder has a return for a wye."""
    buses = [str(name) for name in dss.Circuit.AllBusNames()]
    bus = [bus for bus in buses if phases_of(bus) == PHASES and base_kv(bus) >= _LEAST_KV][-1]
    for phase in PHASES:
        where = f"bus1={bus}.{phase}.{phase % 3 + 1} phases=1 conn=delta kV={base_kv(bus)}"
        dss.Text.Command(f"New Load.bench_{phase} {where} kW=0 kvar=0 model=1 vminpu=0.85 status=fixed")
    return [f"bench_{phase}" for phase in PHASES]


def _both_engines(circuit: Circuit, names: list[str]) -> tuple[float, float, float]:
    """Largest voltage difference (pu), and milliseconds a power flow of ours and of OpenDSS."""
    network = circuit.network
    state = start_state(network)
    rebuild_admittance(network, state)
    solve_power_flow(network, state, OPENDSS)  # as OpenDSS did when the circuit was read
    order = [[str(name).lower() for name in dss.Circuit.YNodeOrder()].index(name) for name in circuit.node_names]
    most_kw = _SHARE * abs(dss.Circuit.TotalPower()[0]) / 3
    off_pu, ours_s, theirs_s = 0.0, 0.0, 0.0
    for second in range(SECONDS):
        kw = most_kw * (0.5 + 0.5 * np.sin(second))
        state.power_va[-len(names) :] = complex(kw, 0.3 * kw) * 1e3
        for name in names:
            dss.Loads.Name(name)
            dss.Loads.kW(kw)
            dss.Loads.kvar(0.3 * kw)
        began = time.perf_counter()
        iterations = solve_power_flow(network, state, OPENDSS)
        middle = time.perf_counter()
        dss.Solution.SolveNoControl()
        ended = time.perf_counter()
        ours_s, theirs_s = ours_s + middle - began, theirs_s + ended - middle
        flat = np.asarray(dss.Circuit.YNodeVArray())
        theirs = (flat[0::2] + 1j * flat[1::2])[order]
        off_pu = max(off_pu, float(np.max(np.abs(state.v[:-1] - theirs) / network.base_v)))
        if iterations != dss.Solution.Iterations():
            return np.inf, ours_s, theirs_s
    return off_pu, 1e3 * ours_s / SECONDS, 1e3 * theirs_s / SECONDS


if __name__ == "__main__":
    main()

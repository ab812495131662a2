"""What loads draw, against the terminal currents of OpenDSS at voltages in every branch of every model."""

from itertools import product

import numpy as np
import pytest
from openg2g.grid.opendss import dss

from scenario_lib.simulation.compiled.circuit import load_table
from scenario_lib.simulation.compiled.circuit_reader import read_circuit, voltages_by_node
from scenario_lib.simulation.compiled.power_flow import draw_currents

SOURCES_PU = (0.3, 0.45, 0.55, 0.7, 0.88, 0.93, 0.97, 1.0, 1.04, 1.07, 1.12, 1.3)
BUSES = {("wye", 1): "s.2", ("delta", 1): "s.1.2", ("wye", 3): "s", ("delta", 3): "s", ("wye", 2): "s.1.3"}
LIMITS = ("", "vminpu=0.85", "vminpu=0.9 vmaxpu=1.1 vlowpu=0.6", "vminpu=0.4")


def solve_one_load(source_pu: float, connection: str, phases: int, rest: str) -> None:
    kv = 2.4 if (connection, phases) == ("wye", 1) else 4.16
    dss.Basic.ClearAll()
    for command in (
        f"New Circuit.one basekv=4.16 pu={source_pu} bus1=s r1=1e-6 x1=1e-6 r0=1e-6 x0=1e-6",
        f"New Load.x bus1={BUSES[connection, phases]} phases={phases} conn={connection} kv={kv} kw=90 kvar=40 {rest}",
        "Set VoltageBases=[4.16]",
        "CalcVoltageBases",
        "Set Mode=Time ControlMode=Off Tolerance=1e-12 MaxIterations=200",
    ):
        dss.Text.Command(command)
    dss.Solution.SolveNoControl()


def drawn_a() -> np.ndarray:
    """Current (A) that our model draws from each node at OpenDSS's voltages."""
    raw = read_circuit()
    n = len(raw.nodes)
    parts = [
        part.__class__(
            **{
                **{name: getattr(part, name) for name in part.__slots__},
                "node": n if part.node is None else part.node,
                "return_node": n if part.return_node is None else part.return_node,
            }
        )
        for part in raw.parts
    ]
    volts = voltages_by_node()
    v = np.array([*(volts[name] for name in raw.nodes), 0.0])
    current = np.zeros(n + 1, complex)
    power = np.array([part.power_va for part in parts])
    draw_currents(load_table(parts), power, np.zeros(len(parts), complex), v, current)
    return -current[:n]


def opendss_a() -> np.ndarray:
    dss.Circuit.SetActiveElement("Load.x")
    flat = np.array(dss.CktElement.Currents())
    by_node = np.zeros(4, complex)
    for node, current in zip(dss.CktElement.NodeOrder(), flat[0::2] + 1j * flat[1::2], strict=True):
        by_node[node - 1 if node else 3] += current
    return by_node[:3]


@pytest.mark.parametrize(("connection", "phases"), BUSES)
@pytest.mark.parametrize("model", ["model=1", "model=4", "model=4 CVRwatts=0.7 CVRvars=3.5", "model=5"])
def test_currents_are_opendss_in_every_branch(model: str, connection: str, phases: int) -> None:
    for limits, source_pu in product(LIMITS, SOURCES_PU):
        solve_one_load(source_pu, connection, phases, f"{model} {limits}")
        theirs = opendss_a()
        assert np.abs(drawn_a() - theirs).max() < 1e-12 * np.abs(theirs).max(), (limits, source_pu)

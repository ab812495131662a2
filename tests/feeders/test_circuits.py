"""The shipped circuits against voltages that were solved from the feeders' figures, not from these files.

`tests/data/feeder_voltages.json` was made from a circuit built element by element through OpenDSS commands.
"""

import contextlib
import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from opendssdirect.OpenDSSDirect import OpenDSSDirect

from scenario_lib._parsing import data_dir

dss = OpenDSSDirect(prefer_lists=False)

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "feeder_voltages.json").read_text(encoding="utf-8"))
FEEDERS = tuple(GOLDEN["feeders"])


@dataclass(frozen=True)
class Inventory:
    """What a circuit is made of; the load is the sum of the rated powers."""

    feeder: str
    counts: tuple[tuple[str, int], ...]
    load_kw: float
    load_kvar: float
    base_kv: tuple[float, ...]
    buses_without_coordinates: frozenset[str] = frozenset()


def classes(*counts: int) -> tuple[tuple[str, int], ...]:
    names = ("Vsource", "Transformer", "RegControl", "LineCode", "Line", "Load", "Capacitor")
    return tuple(zip(names, counts, strict=True))


# The total loads of ieee34 and ieee123 are those that the IEEE PES publishes. No bus of ieee34 is at 0.48 kV,
# although its list of voltage bases holds it.
INVENTORIES = (
    Inventory("ieee13", classes(1, 5, 3, 7, 12, 14, 0), 1561, 955, (0.48, 4.16, 115)),
    Inventory("ieee34", classes(1, 8, 6, 5, 32, 68, 2), 1769, 1044, (4.16, 24.9, 69)),
    Inventory(
        "ieee123", classes(1, 8, 7, 12, 126, 91, 4), 3490, 1920, (0.48, 4.16), frozenset({"300_open", "94_open"})
    ),
)
each_feeder = pytest.mark.parametrize("feeder", FEEDERS)
each_inventory = pytest.mark.parametrize("expected", INVENTORIES, ids=lambda inventory: inventory.feeder)


@pytest.fixture(autouse=True)
def _empty_opendss() -> Iterator[None]:
    """OpenDSS is one engine a process: leave nothing behind for other tests."""
    yield
    dss.Basic.ClearAll()
    dss.Text.Command("Set DefaultBaseFrequency=60")


def compile_feeder(feeder: str) -> None:
    """Compile as openg2g does; Compile also changes the working directory, which is put back."""
    with contextlib.chdir(Path.cwd()):
        dss.Basic.ClearAll()
        dss.Text.Command(f'Compile "{data_dir() / "feeders" / feeder / f"{feeder}.dss"}"')


def apply_state(feeder: str, state: str) -> None:
    """Source voltage and regulator taps of a golden state."""
    settings = GOLDEN["feeders"][feeder][state]
    dss.Text.Command(f"Edit Vsource.source pu={settings['source_pu']}")
    for control, tap_pu in settings["regulator_taps_pu"].items():
        dss.RegControls.Name(control)
        winding = f"Transformer.{dss.RegControls.Transformer()} Wdg={dss.RegControls.Winding()}"
        dss.Text.Command(f"Edit {winding} Tap={tap_pu}")


def solve() -> NDArray[np.complex128]:
    """Node voltages (pu, in OpenDSS's order), converged far below the tolerance of the comparison."""
    for command in ("Set Tolerance=1e-12", "Set MaxIterations=100", "Set ControlMode=Off"):
        dss.Text.Command(command)
    dss.Solution.SolveNoControl()
    assert dss.Solution.Converged()
    parts_v = np.asarray(dss.Circuit.AllBusVolts(), dtype=np.float64)
    phasors_v = parts_v[0::2] + 1j * parts_v[1::2]
    voltages_pu: NDArray[np.complex128] = dss.Circuit.AllBusMagPu() * phasors_v / np.abs(phasors_v)
    return voltages_pu


@each_feeder
@pytest.mark.parametrize("state", ["as_compiled", "study_start"])
def test_voltages_equal_the_golden_ones(feeder: str, state: str) -> None:
    golden = GOLDEN["feeders"][feeder]
    compile_feeder(feeder)
    apply_state(feeder, state)
    voltages = solve()

    assert dss.Circuit.AllNodeNames() == golden["nodes"]
    np.testing.assert_allclose(np.abs(voltages), golden[state]["magnitude_pu"], rtol=0, atol=1e-8)
    turned = np.exp(1j * np.deg2rad(golden[state]["angle_deg"]))
    np.testing.assert_allclose(voltages, golden[state]["magnitude_pu"] * turned, rtol=0, atol=1e-8)


@each_feeder
def test_as_compiled_needs_no_settings(feeder: str) -> None:
    """The golden source voltage of that state is the one in the file, and all taps are at 1."""
    compile_feeder(feeder)
    dss.Vsources.First()
    assert dss.Vsources.PU() == GOLDEN["feeders"][feeder]["as_compiled"]["source_pu"]
    for control in dss.RegControls:
        dss.Transformers.Name(control.Transformer())
        dss.Transformers.Wdg(control.Winding())
        assert dss.Transformers.Tap() == 1.0


@each_feeder
def test_study_start_sets_every_regulator(feeder: str) -> None:
    compile_feeder(feeder)
    assert set(dss.RegControls.AllNames()) == set(GOLDEN["feeders"][feeder]["study_start"]["regulator_taps_pu"])


@each_inventory
def test_element_counts_and_total_load(expected: Inventory) -> None:
    compile_feeder(expected.feeder)
    for name, count in expected.counts:
        dss.Circuit.SetActiveClass(name)
        assert (name, dss.ActiveClass.Count()) == (name, count)
    assert sum(load.kW() for load in dss.Loads) == pytest.approx(expected.load_kw)
    assert sum(load.kvar() for load in dss.Loads) == pytest.approx(expected.load_kvar)


@each_inventory
def test_every_bus_has_a_voltage_base(expected: Inventory) -> None:
    """A bus without one reads as 0 kV, and whatever is attached to it would be rated so."""
    compile_feeder(expected.feeder)
    found_kv = set()
    for bus in dss.Circuit.AllBusNames():
        dss.Circuit.SetActiveBus(bus)
        found_kv.add(round(dss.Bus.kVBase() * 3**0.5, 6))
    assert found_kv == set(expected.base_kv)


@each_inventory
def test_coordinates_name_the_buses_of_the_circuit(expected: Inventory) -> None:
    """Only the open ends of ieee123's switches, where nothing is connected, have no place on the map."""
    compile_feeder(expected.feeder)
    path = data_dir() / "feeders" / expected.feeder / "bus_coordinates.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    named = [row["bus"] for row in rows]

    assert list(rows[0]) == ["bus", "x", "y"]
    assert len(named) == len(set(named))
    assert np.isfinite([[float(row["x"]), float(row["y"])] for row in rows]).all()
    assert set(dss.Circuit.AllBusNames()) - set(named) == expected.buses_without_coordinates
    assert set(named) <= set(dss.Circuit.AllBusNames())


@each_feeder
def test_a_frequency_left_by_another_circuit_does_not_matter(feeder: str) -> None:
    """OpenDSS keeps the default frequency over ClearAll, so the file sets its own."""
    dss.Basic.ClearAll()
    dss.Text.Command("Set DefaultBaseFrequency=50")
    compile_feeder(feeder)
    assert dss.Solution.Frequency() == 60.0
    np.testing.assert_allclose(
        np.abs(solve()), GOLDEN["feeders"][feeder]["as_compiled"]["magnitude_pu"], rtol=0, atol=1e-8
    )

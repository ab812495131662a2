"""Measuring where none of our files are: what travels, and that the figures are the same there."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from scenario_lib._parsing import data_dir
from scenario_lib.errors import DataFileError, MissingDataError
from scenario_lib.execution.task_bundle import PackageFile, PortableTask, pack, unpack
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.build import MeasureTask
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.criteria import ScreeningCriteria


def measuring(system: str | Path, specs_dir: Path | None = None) -> MeasureTask:
    return MeasureTask(
        MeasurePlan(load_experiment(system), RandomizationSettings(), ScreeningCriteria(), specs_dir, full_table=True)
    )


@pytest.fixture
def own(tmp_path: Path, village_file: Path) -> Path:
    """A user's feeder whose circuit is in parts, one of them in a folder beside, and a user's spec cache."""
    folder = tmp_path / "own"
    shutil.copytree(village_file.parent, folder / "village")
    shutil.copytree(data_dir() / "specs", folder / "specs")
    for trace in folder.glob("specs/*/trace.csv"):
        trace.write_text(trace.read_text().replace(".1", ".2"))
    circuit = folder / "village" / "village.dss"
    head, loads = circuit.read_text().split("\nNew Load.", 1)
    loads, tail = f"New Load.{loads}".split("\n\n", 1)
    (folder / "parts").mkdir()
    (folder / "parts" / "loads.dss").write_text(loads + "\n")
    circuit.write_text(f"{head}\nRedirect ../parts/loads.dss\n\n{tail}")
    return folder


def test_figures_are_the_same_where_the_files_were_unpacked(own: Path, tmp_path: Path) -> None:
    here = measuring(own / "village" / "experiment.toml", own / "specs")
    bundle = pack(here)
    expected, expected_traces = here(7)
    own.rename(tmp_path / "gone")
    there = unpack(bundle.content, tmp_path / "there")
    assert isinstance(there, PortableTask)
    there.prepare()
    found, traces = there(7)
    assert found == expected
    assert found.failure is None
    assert np.array_equal(traces, expected_traces) if expected_traces is not None else traces is None


def test_a_users_files_travel_and_shipped_ones_do_not(own: Path) -> None:
    packed, files = measuring(own / "village" / "experiment.toml", own / "specs").packed()
    sent = {file.name for file in files if not isinstance(file.content, PackageFile)}
    assert {"circuit/village/village.dss", "circuit/parts/loads.dss"} <= sent
    assert {Path(name).name for name in sent if name.startswith("specs/")} == {"trace.csv"}, "fits are the shipped ones"
    assert packed.plan.experiment.feeder.circuit == "circuit/village/village.dss"
    assert packed.plan.specs_dir == Path("specs")


@pytest.mark.parametrize("system", ["ieee13", "ieee34", "ieee123"])
def test_of_a_shipped_feeder_nothing_is_sent(system: str) -> None:
    _, files = measuring(system).packed()
    assert len(files) > 3
    assert all(isinstance(file.content, PackageFile) for file in files)
    assert len(pack(measuring(system)).content) < 10_000


def test_an_absolute_path_in_a_circuit_is_refused_before_anything_is_sent(own: Path) -> None:
    circuit, loads = own / "village" / "village.dss", own / "parts" / "loads.dss"
    circuit.write_text(circuit.read_text().replace("../parts/loads.dss", str(loads)))
    with pytest.raises(DataFileError, match=rf"village\.dss: names {loads}, which the cluster's workers do not"):
        measuring(own / "village" / "experiment.toml").packed()


def test_tables_that_the_circuit_reads_travel_too(own: Path, tmp_path: Path) -> None:
    circuit = own / "village" / "village.dss"
    (own / "village" / "shape.csv").write_text("1\n0.9\n")
    circuit.write_text(circuit.read_text().replace("\nNew ", "\nNew LoadShape.s npts=2 csvfile=shape.csv\nNew ", 2))
    there = unpack(pack(measuring(own / "village" / "experiment.toml")).content, tmp_path / "there")
    own.rename(tmp_path / "gone")
    there.prepare()
    (tmp_path / "there" / "circuit" / "village" / "shape.csv").unlink()
    with pytest.raises(MissingDataError, match=r"shape\.csv: no such file, but the circuit .* needs it"):
        there.prepare()

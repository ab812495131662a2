"""OpenDSS as if each circuit were its first, its last and its only: nothing stays, nothing is written, nobody waits."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from openg2g.grid.opendss import dss

from scenario_lib.errors import DataFileError, EngineInUseError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.randomize import base_scenario
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.compiled.circuit import read_network
from scenario_lib.simulation.opendss import circuit_trial
from scenario_lib.simulation.opendss.check import check_feeder
from scenario_lib.simulation.opendss.engine import compile_circuit, opendss_held
from scenario_lib.simulation.opendss.hosting import BaseCase, started
from scenario_lib.simulation.rollout import build_simulation, run_reference

Edit = Callable[[str, str], Path]

# It leaves to OpenDSS whatever has a default: frequency, earth model, shapes, growth, load multiplier.
PLAIN = """
Clear
New Circuit.plain basekv=4.16 bus1=a pu=1.02 mvasc3=100 mvasc1=90
New WireData.w Rac=0.3 GMRac=0.02 Radius=0.03 Runits=mi GMRunits=ft Radunits=ft NormAmps=400
New LineGeometry.g nconds=3 nphases=3
~ cond=1 wire=w x=-1 h=8 units=m
~ cond=2 wire=w x=0 h=8 units=m
~ cond=3 wire=w x=1 h=8 units=m
New Line.l bus1=a bus2=b geometry=g length=2 units=km
New Line.m bus1=b bus2=c length=1000 units=ft
New Capacitor.c bus1=c kv=4.16 kvar=100
New Load.l bus1=c kv=4.16 kw=500 kvar=100
New Load.z bus1=b kv=4.16 kw=50 pf=0.9 model=8 zipv=[0.2 0.3 0.5 0.2 0.3 0.5 0.7]
Set VoltageBases=[4.16]
CalcVoltageBases
Solve
"""
LASTING = (
    "Set DefaultBaseFrequency=50",
    "Set Frequency=55",
    "Set Editor=/bin/false",
    "Set DaisySize=3",
    "Set EventLogDefault=Yes",
    "Set SeasonRating=Yes",
    "New XYcurve.s npts=1 xarray=[0] yarray=[1]\nSet SeasonRating=Yes\nSet SeasonSignal=s",
    "Set ShowExport=Yes",
    "Set ShowReports=No",
    "Set Parallel=Yes",
    "Set ConcatenateReports=Yes",
    "Set DataPath=/tmp",
    "Set ControlMode=Off",
    "Set ControlMode=Time",
    "Set MaxControlIter=2",
    "Set MaxIterations=3",
    "Set MinIterations=9",
    "Set Tolerance=0.1",
    "Set Algorithm=Newton",
    "Set LoadMult=1.5",
    "Set GenMult=1.5",
    "Set LoadModel=Admittance",
    "Set CktModel=Positive",
    "Set Trapezoidal=Yes",
    "Set EarthModel=Carson",
    "Set NeglectLoadY=Yes",
    "Set LongLineCorrection=Yes",
    "Set AllowDuplicates=Yes",
    "Set ZoneLock=Yes",
    "Set Year=7",
    "Set %Growth=9",
    "Set Zmag=0.5",
    "Set KeepLoad=No",
    "Set NormVmaxpu=1.5",
    "Set EmergVmaxpu=2",
    "Set LineTypes=[x]",
    "Set Mode=Daily",
    "Set Random=Uniform",
    "Set StepSize=7s",
    "Set Hour=5 Sec=7",
    "New LoadShape.half npts=1 mult=[0.5]\nSet DefaultDaily=half\nSet DefaultYearly=half",
    "Edit LoadShape.default npts=1 mult=[0.5]",
    "Edit Spectrum.default NumHarm=1 Harmonic=[1] %mag=[50]",
    "Edit GrowthShape.default npts=1 year=[1] mult=[9]",
    "New LineCode.default nphases=3 r1=9",
    "Set LoadShapeClass=Daily",
    "var @x=5",
    "NewActor\nSet ActiveActor=2",
    "Set PriceSignal=3",
    "Set SampleEnergyMeters=Yes",
    "Set Recorder=Yes",
    "Set Log=Yes",
    "Set QueryLog=Yes",
    "Set TraceControl=Yes",
)


def circuit_file(folder: Path, text: str, name: str = "circuit.dss") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def fingerprint(circuit: Path) -> list[str]:
    """What OpenDSS has read: voltages and Y to the bit, all options that can be asked for, and all properties."""
    with opendss_held():
        compile_circuit(circuit)
        admittance = b"".join(part.tobytes() for part in dss.YMatrix.getYsparse(factor=False))
        lines = [
            hashlib.sha256(dss.Circuit.AllBusVolts().tobytes()).hexdigest(),
            hashlib.sha256(admittance).hexdigest(),
        ]
        for option in (dss.Executive.Option(i) for i in range(1, dss.Executive.NumOptions() + 1)):
            if option.lower() not in ("numanodes", "processtime", "totaltime", "steptime", "cpu"):
                dss.Text.Command(f"Get {option}")
                lines.append(f"{option}={dss.Text.Result()}")
        for element in dss.Circuit.AllElementNames():
            dss.Circuit.SetActiveElement(element)
            for name in dss.CktElement.AllPropertyNames():
                if name.lower() == "cmatrix":
                    continue  # of a capacitor without one OpenDSS shows memory that nobody wrote
                dss.Text.Command(f"? {element}.{name}")
                lines.append(f"{element}.{name}={dss.Text.Result()}")
    return lines


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return circuit_file(tmp_path_factory.mktemp("plain"), PLAIN, "plain.dss")


@pytest.fixture(scope="module")
def fresh(plain: Path) -> list[str]:
    """Of the plain circuit, in a process that has read nothing else."""
    code = "import json; from test_opendss import *; print(json.dumps(fingerprint(Path(sys.argv[1]))))"
    found: list[str] = json.loads(in_new_process(code, str(plain)))
    return found


def in_new_process(code: str, *arguments: str) -> str:
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return run.stdout


@pytest.mark.parametrize("lines", LASTING)
def test_what_a_circuit_sets_does_not_outlast_it(
    tmp_path: Path, plain: Path, fresh: list[str], lines: str, monkeypatch
) -> None:
    monkeypatch.setattr(circuit_trial, "_try", lambda _circuit: None)
    other = circuit_file(tmp_path, PLAIN.replace("Solve", f"{lines}\nSolve"))
    with opendss_held():
        compile_circuit(other)
    assert fingerprint(plain) == fresh


WRITES = (
    "Export Voltages {out}",
    "Export Voltages",
    '"Export" Voltages {out}',
    "(Export) Voltages {out}",
    "Export, Voltages, {out}",
    "exp v",
    "Save Circuit dir={out}",
    "Save",
    "sa Load",
    "Show Voltages LN Nodes",
    "sho losses",
    "Show currents elements",
    "Plot Circuit",
    "Visualize What=Currents Element=Line.l",
    "Dump Line.* debug",
    "dump commands",
    "Export Monitors m",
    "Export Y triplets {out}",
    "Set DataPath={folder}\nExport Summary",
    "Set Recorder=Yes\nSolve",
    "Set Log=Yes\nSolve",
    "Set TraceControl=Yes\nSolve",
    "Set QueryLog=Yes\nSolve",
    "Set DemandInterval=Yes\nNew EnergyMeter.e element=Line.l\nSet Mode=Daily Number=2\nSolve\nCloseDI",
    "FileEdit {out}",
    "DOScmd /c touch {out}",
    "cd {folder}\nExport Voltages",
    "New Generator.g bus1=c kv=4.16 kw=1 debugtrace=yes\nSolve",
    "New Monitor.m element=Line.l terminal=1 mode=1\nSolve mode=daily number=3\nSample\nMonitor.m.Action=Save",
    "Uuids {out}",
    "Obfuscate",
    "Summary file={out}",
    "AlignFile {main}",
    "CvrtLoadshapes type=sng",
    "ExportOverloads",
)


@pytest.mark.parametrize("lines", WRITES)
def test_reading_a_circuit_writes_nothing(tmp_path: Path, lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "feeder"
    named = lines.format(out=tmp_path / "out.csv", folder=tmp_path, main="circuit.dss")
    circuit = circuit_file(folder, f"{PLAIN}\n{named}\n")
    (tmp_path / "scratch").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "scratch"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with opendss_held():
        compile_circuit(circuit)
        assert dss.Circuit.NumNodes() == 9
        dss.Solution.Solve()
    assert sorted(tmp_path.rglob("*")) == before
    assert circuit.read_text(encoding="utf-8") == f"{PLAIN}\n{named}\n"
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize("named", ["../codes.dss", "{folder}/codes.dss", "../shared/codes.dss"])
def test_a_circuit_keeps_the_layout_of_its_collection(tmp_path: Path, named: str) -> None:
    """Its copy is compiled: the line codes one folder up, and what they name in turn, are where it looks for them."""
    codes = tmp_path / named.format(folder="").replace("../", "").lstrip("/")
    codes.parent.mkdir(exist_ok=True)
    codes.write_text("New LineCode.mine nphases=3 r1=0.1\nRedirect more/codes.dss\n", encoding="utf-8")
    circuit_file(codes.parent / "more", "New LineCode.more nphases=3 r1=0.2\n", "codes.dss")
    redirected = f"Redirect {named.format(folder=tmp_path)}\nEdit Line.l linecode=more\nSolve"
    circuit = circuit_file(tmp_path / "feeder", PLAIN.replace("Solve", redirected))
    before = sorted(tmp_path.rglob("*"))
    with opendss_held():
        compile_circuit(circuit)
        assert dss.LineCodes.AllNames() == ["mine", "more"]
    assert sorted(tmp_path.rglob("*")) == before


def test_a_circuit_without_an_end_is_refused_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuit_trial, "DEADLINE_S", 4.0)
    circuit = circuit_file(tmp_path, f"{PLAIN}\nSet Mode=Daily Number=2000000000\nSolve\n")
    with pytest.raises(DataFileError, match=r"circuit\.dss: OpenDSS was not done with it after 4 s"):
        compile_circuit(circuit)


def test_a_crash_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenDSS itself, with the look at the text left out."""
    monkeypatch.setattr(circuit_trial, "__name__", "crash")
    circuit_file(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "crash.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(DataFileError, match=r"circuit\.dss: OpenDSS crashes on it \(signal 11\)"):
        compile_circuit(circuit_file(tmp_path, PLAIN))


def test_a_circuit_is_tried_once_as_long_as_it_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Path] = []
    monkeypatch.setattr(circuit_trial, "_try", tried.append)
    circuit = circuit_file(tmp_path, PLAIN)
    for _ in range(3):
        compile_circuit(circuit)
    compile_circuit(Path(load_experiment("ieee13").feeder.circuit))
    assert tried == [circuit]
    compile_circuit(circuit_file(tmp_path, f"{PLAIN}\n! more\n"))
    assert tried == [circuit, circuit]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\nSet VoltageBases=[12.47", "\nEdit Vsource.source enabled=no\nSet VoltageBases=[12.47"),
        ("basekv=12.47  pu=1.0", "basekv=0.001  pu=1.0"),
        ("mvasc3=200", "frequency=50 mvasc3=200"),
        ("bus1=source  mvasc3", "bus1=elsewhere  mvasc3"),
    ],
)
def test_a_source_without_voltage_is_refused(edited_village: Edit, specs_dir: Path, old: str, new: str) -> None:
    experiment = load_experiment(edited_village(old, new))
    assets = load_assets(experiment, specs_dir)
    circuit = Path(experiment.feeder.circuit)

    def look() -> None:
        with started(BaseCase(circuit, experiment.feeder.source_pu, experiment.feeder.initial_taps_pu)):
            pass

    for enter in (
        look,
        lambda: check_feeder(experiment),
        lambda: run_reference(base_scenario(experiment), experiment, assets, n_steps=1),
        lambda: read_network(base_scenario(experiment), experiment),
    ):
        with pytest.raises(DataFileError, match=r"village\.dss: its source gives no voltage"):
            enter()


def test_every_reading_ends_the_simulation_before(village, specs_dir: Path) -> None:
    """Whatever compiles a circuit, the grid that had OpenDSS before says so at its next step."""
    scenario, assets = base_scenario(village), load_assets(village, specs_dir)
    circuit = Path(village.feeder.circuit)
    for other in (lambda: compile_circuit(circuit), lambda: check_feeder(village)):
        grid = build_simulation(scenario, village, assets, n_steps=1).grid
        grid.start()
        grid.voltages_vector()
        other()
        with pytest.raises(EngineInUseError, match="another circuit was compiled"):
            grid.voltages_vector()


THREADS = """
from concurrent.futures import ThreadPoolExecutor
from test_opendss import *
from scenario_lib.simulation.engines import Engine, simulator
village = load_experiment(Path(sys.argv[1])); specs = Path(sys.argv[2])
assets = load_assets(village, specs)
def play(i):
    if i % 5 == 4:
        check_feeder(village)
        return None
    if i % 5 == 3:
        compile_circuit(Path(load_experiment(("ieee13", "ieee34")[i % 2]).feeder.circuit))
        return None
    if i % 5 == 2:
        read_network(base_scenario(village), village)
        return None
    return run_reference(base_scenario(village), village, assets, n_steps=20).voltages_pu.tobytes()
alone = play(0)
with ThreadPoolExecutor(8) as pool:
    assert {out for out in pool.map(play, range(60))} == {alone, None}
print("equal")
"""


def test_threads_wait_for_each_other(village_file: Path, specs_dir: Path) -> None:
    assert in_new_process(THREADS, str(village_file), str(specs_dir)).strip() == "equal"


def test_threads_of_compiled_rollouts(village_file: Path, specs_dir: Path) -> None:
    code = THREADS.replace(
        "return run_reference(base_scenario(village), village, assets, n_steps=20).voltages_pu.tobytes()",
        'return simulator(base_scenario(village), village, assets, Engine()).run("ofo").rollout.voltages_pu.tobytes()',
    )
    assert in_new_process(code, str(village_file), str(specs_dir)).strip() == "equal"


def test_a_fork_renews_the_lock(plain: Path) -> None:
    """A child of a process whose other thread has OpenDSS."""
    code = """
from test_opendss import *
import threading
has, over = threading.Event(), threading.Event()
def hold():
    with opendss_held():
        has.set(); over.wait(60)
threading.Thread(target=hold).start(); has.wait()
child = os.fork()
if not child:
    compile_circuit(Path(sys.argv[1])); os._exit(7)
status = os.waitpid(child, 0)[1]
over.set()
print(os.waitstatus_to_exitcode(status))
"""
    assert in_new_process(code, str(plain)).strip() == "7"


@pytest.mark.parametrize(
    "line",
    [
        "New Generator.g bus1=c kv=4.16 kw=1 model=6 UserModel={dll}",
        "new generator.g bus1=c kv=4.16 kw=1 model=6 userm = '{dll}'",
        "New Generator.g bus1=c kv=4.16 kw=1 ShaftModel={dll}",
        "New Storage.s bus1=c kv=4.16 kwrated=1 DynaDLL={dll}",
        "New PVSystem.p bus1=c kv=4.16 pmpp=1\nEdit PVSystem.p UserModel=({dll})",
        "PVSystem.p.UserModel={dll}",
    ],
)
def test_a_circuit_that_brings_machine_code_is_refused(tmp_path: Path, line: str) -> None:
    circuit = circuit_file(tmp_path / "feeder", f"{PLAIN}\n{line.format(dll=tmp_path / 'model.so')}\n")
    with opendss_held(), pytest.raises(DataFileError, match=r"circuit\.dss: .*has OpenDSS load and run machine code"):
        compile_circuit(circuit)


def test_machine_code_in_a_comment_is_none(tmp_path: Path) -> None:
    circuit = circuit_file(tmp_path / "feeder", f"{PLAIN}\n! UserModel=mine.dll\n")
    with opendss_held():
        compile_circuit(circuit)
        assert dss.Circuit.NumNodes() == 9

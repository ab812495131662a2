"""The compiled engine by itself: repeatable, refusing by name, and never compiling twice."""

import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from scenario_lib.errors import MissingDataError, NotModelledError, UnknownNameError
from scenario_lib.feeders.experiment import Experiment, Feeder
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.metrics.voltage import measure_voltages, penalty_trace
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.compiled import jit as compile_once
from scenario_lib.simulation.compiled.jit import prune_beside
from scenario_lib.simulation.compiled.rollout import (
    CompiledScenario,
    compile_scenario,
    measure_rollout,
    run_compiled,
    warm_up,
)
from scenario_lib.simulation.engines import run_policy
from scenario_lib.simulation.opendss.datacenters import POLICIES


def compiled(experiment: Experiment, seed: int = 7, n_seconds: int = 60) -> CompiledScenario:
    scenario = randomize_scenario(seed, experiment=experiment, settings=RandomizationSettings())
    return compile_scenario(scenario, experiment, load_assets(experiment), n_seconds)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_bytes_again_and_after_other_scenarios(policy: str) -> None:
    experiment = load_experiment("ieee34")
    first = run_policy(compiled(experiment), policy)
    for other in ("ieee13", "ieee123"):
        run_compiled(compiled(load_experiment(other), 1007), "ofo")
    one = compiled(experiment)
    for _ in range(2):
        again = run_policy(one, policy)
        for name in ("voltages_pu", "power_w", "batch_sizes", "active_replicas", "itl_s"):
            assert getattr(again, name).tobytes() == getattr(first, name).tobytes()


def test_policies_by_name() -> None:
    one = compiled(load_experiment("ieee13"))
    assert [run_policy(one, policy).policy for policy in POLICIES] == list(POLICIES)
    with pytest.raises(UnknownNameError, match="expected one of none, ofo, rule-based"):
        run_policy(one, "best")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("New Storage.battery bus1=square phases=3 kv=4.16 kwrated=10", "Storage.battery"),
        (
            "New Generator.a bus1=square kv=4.16 kw=10 model=3\nNew Generator.b bus1=town kv=4.16 kw=10 model=3",
            r"generators of OpenDSS generator model 3 \(Generator.a and 1 more\)",
        ),
        ("New Generator.peak bus1=square kv=4.16 kw=10 dispmode=loadlevel dispvalue=2", "dispatched .*Generator.peak"),
        ("New PVSystem.roof bus1=square kv=4.16 kva=10 limitcurrent=yes", "limit their current .PVSystem.roof"),
        ("New Load.zip bus1=square kv=4.16 kw=5 model=8 zipv=(1 0 1 1 0 0 0)", "shares do not add up to 1 .load zip"),
        ("New Load.zip bus1=square kv=4.16 kw=5 model=8 zipv=(1 0 0 1 0 0 .5)", "cut-off voltage .load zip"),
        ("New Load.press bus1=square kv=4.16 kw=5 model=6", "loads of OpenDSS load model 6 .load press"),
        (
            "New Generator.split bus1=square.1.2 phases=1 conn=delta kv=4.16 kw=90",
            "generators of less than three phases in delta .Generator.split",
        ),
        ("New Load.lifted bus1=square.1.2.3.4 kv=4.16 kw=5 rneut=1", "loads with a neutral impedance .load lifted"),
        ("Set GenMult=1.2", "solution option GenMult 1.2"),
        ("Set Algorithm=Newton", "solution option Algorithm Newton"),
    ],
)
def test_refuses_by_name(users_experiment: Experiment, tmp_path: Path, line: str, named: str) -> None:
    text = Path(users_experiment.feeder.circuit).read_text(encoding="utf-8")
    circuit = tmp_path / "more.dss"
    circuit.write_text(text.replace("Set VoltageBases", f"{line}\nSet VoltageBases"), encoding="utf-8")
    feeder: Feeder = replace(users_experiment.feeder, circuit=str(circuit))
    with pytest.raises(NotModelledError, match=named):
        compiled(replace(users_experiment, feeder=feeder))


def test_too_few_servers_are_an_error_as_in_the_reference() -> None:
    experiment = load_experiment("ieee13")
    scenario = randomize_scenario(7, experiment=experiment, settings=RandomizationSettings())
    small = replace(scenario.sites[0], total_gpu_capacity=3000)
    with pytest.raises(ValueError, match="exceeds total_gpu_capacity"):
        compile_scenario(replace(scenario, sites=(small,)), experiment, load_assets(experiment), 10)


def test_measures_are_those_of_the_metrics() -> None:
    rng = np.random.default_rng(0)
    voltages_pu = rng.normal(1.0, 0.03, (200, 30))
    measures, penalty = measure_rollout(voltages_pu, 0.95, 1.05)
    expected = measure_voltages(voltages_pu, 0.95, 1.05)
    assert measures.integral_pu_s == pytest.approx(expected.integral_pu_s, rel=1e-13)
    assert replace(measures, integral_pu_s=0.0) == replace(expected, integral_pu_s=0.0)
    assert np.allclose(penalty, penalty_trace(voltages_pu, 0.95, 1.05), rtol=1e-13, atol=0)


def test_a_changed_circuit_is_read_again(users_experiment: Experiment, tmp_path: Path) -> None:
    """Also one whose change is in a file that it redirects to; one that stays is read once."""
    text = Path(users_experiment.feeder.circuit).read_text(encoding="utf-8")
    loads = "\n".join(line for line in text.splitlines() if line.startswith("New Load."))
    circuit, loads_file = tmp_path / "village.dss", tmp_path / "loads.dss"
    circuit.write_text(text.replace(loads, "Redirect loads.dss"), encoding="utf-8")
    loads_file.write_text(loads, encoding="utf-8")
    experiment = replace(users_experiment, feeder=replace(users_experiment.feeder, circuit=str(circuit)))
    before = compiled(experiment)
    assert compiled(experiment).circuit is before.circuit
    loads_file.write_text(loads.replace("kw=400", "kw=410"), encoding="utf-8")
    after = compiled(experiment)
    assert after.circuit is not before.circuit
    assert run_compiled(after).voltages_pu.min() < run_compiled(before).voltages_pu.min()
    loads_file.unlink()
    with pytest.raises(MissingDataError, match="loads.dss: no such file"):
        compiled(experiment)


def test_machine_code_that_nobody_used_for_a_month_goes(tmp_path: Path) -> None:
    names = ("kernels-own", "kernels-recent", "kernels-old", "kernels-removed-1-older", "kernels-kept", "other-old")
    folders = {name: tmp_path / f"scenario-lib-{name}" for name in names}
    for name, folder in folders.items():
        folder.mkdir()
        (folder / "code.nbc").touch()
        days = {"kernels-recent": 29, "kernels-kept": 0}.get(name, 31)
        os.utime(folder, (time.time() - 86400 * days,) * 2)
    prune_beside(folders["kernels-own"])
    left = {path.name.removeprefix("scenario-lib-") for path in tmp_path.iterdir()}
    assert left == {"kernels-own", "kernels-recent", "kernels-kept", "other-old"}
    assert (folders["kernels-recent"] / "code.nbc").exists()


def test_several_processes_may_prune_at_once(tmp_path: Path) -> None:
    """Whoever is first renames; the others find nothing, or what somebody else is about to remove."""
    for i in range(20):
        folder = tmp_path / f"scenario-lib-kernels-{i}"
        folder.mkdir()
        os.utime(folder, (0, 0))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(prune_beside, [tmp_path / f"scenario-lib-kernels-own{i}" for i in range(4)]))
    assert list(tmp_path.iterdir()) == []


def test_the_first_use_on_a_machine_is_announced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compile_once, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(compile_once, "_seen", set())
    compile_once._announce.cache_clear()
    with caplog.at_level(logging.INFO, "scenario_lib"):
        for part in ("one", "another"):
            with compile_once.compiling_once(part):
                pass
        compile_once._announce.cache_clear()
        monkeypatch.setattr(compile_once, "_seen", set())  # another process
        with compile_once.compiling_once("one"):
            pass
    assert caplog.messages == ["compiling the engine's kernels, once per machine, about twenty seconds on two cores"]


def test_the_first_use_holds_the_lock_and_later_ones_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_once, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(compile_once, "_seen", set())
    lock = FileLock(tmp_path / "part.lock")
    with compile_once.compiling_once("part"), pytest.raises(TimeoutError):
        lock.acquire(timeout=0.05)
    assert (tmp_path / "part.compiled").exists()
    monkeypatch.setattr(compile_once, "_seen", set())  # another process
    with lock, compile_once.compiling_once("part"):
        pass


def test_a_warm_up_compiles_all_that_rollouts_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_once, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(compile_once, "_seen", set())
    experiment = load_experiment("ieee13")
    assets = load_assets(experiment)
    warm_up(experiment, assets)
    compiled_parts = {path.stem for path in tmp_path.glob("*.compiled")}
    assert compiled_parts == {"measures", "policy-none", "policy-ofo", "tables"}
    monkeypatch.setattr("scenario_lib.simulation.compiled.rollout.compile_scenario", None)
    warm_up(experiment, assets)  # nothing left to do


def test_a_first_use_that_fails_leaves_the_work_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_once, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(compile_once, "_seen", set())
    with pytest.raises(KeyError), compile_once.compiling_once("part"):
        raise KeyError
    assert not (tmp_path / "part.compiled").exists()
    with FileLock(tmp_path / "part.lock").acquire(timeout=1):
        pass

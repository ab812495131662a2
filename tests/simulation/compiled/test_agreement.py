"""Both engines on the same scenarios: bits where bits are promised, 5e-8 pu on voltages, the same decisions.

Seeds are fixed here, and none is left out.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from openg2g.grid.opendss import dss

from scenario_lib.errors import PowerFlowError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.feeders.sites import Site
from scenario_lib.scenario.randomize import base_scenario, randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.compiled.circuit import AGREEMENT_PU, start_state
from scenario_lib.simulation.compiled.power_flow import ACCURATE, OPENDSS, Tolerance, solve_second
from scenario_lib.simulation.compiled.rollout import compile_scenario, run_compiled
from scenario_lib.simulation.engines import run_policy
from scenario_lib.simulation.opendss.datacenters import POLICIES
from scenario_lib.simulation.opendss.grid import ScenarioGrid
from scenario_lib.simulation.rollout import Rollout, run_reference

SECONDS = 320  # two sensitivity estimates


def both(experiment: Experiment, settings: RandomizationSettings, seed: int, policy: str) -> tuple[Rollout, Rollout]:
    """The rollout of the reference engine and that of the compiled one."""
    scenario = randomize_scenario(seed, experiment=experiment, settings=settings)
    assets = load_assets(experiment)
    theirs = run_reference(scenario, experiment, assets, policy, SECONDS)
    return theirs, run_policy(compile_scenario(scenario, experiment, assets, SECONDS), policy)


def assert_agree(theirs: Rollout, ours: Rollout) -> None:
    for name in ("policy", "bus_phases", "site_names", "model_labels"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert np.array_equal(ours.batch_sizes, theirs.batch_sizes)
    assert np.array_equal(ours.power_w, theirs.power_w)
    assert np.array_equal(ours.active_replicas, theirs.active_replicas)
    assert np.array_equal(ours.itl_s, theirs.itl_s, equal_nan=True)
    assert np.abs(ours.voltages_pu - theirs.voltages_pu).max() < AGREEMENT_PU


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [7, 31007])
@pytest.mark.parametrize("system", ["ieee13", "ieee34", "ieee123"])
def test_shipped_feeders(system: str, seed: int, policy: str, eventful: RandomizationSettings) -> None:
    theirs, ours = both(load_experiment(system), eventful, seed, policy)
    assert_agree(theirs, ours)
    if policy == "ofo" and system != "ieee13":
        assert np.any(theirs.batch_sizes != theirs.batch_sizes[0])  # there were decisions to agree on


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [7, 1007, 2007])
def test_a_users_feeder_with_few_replicas(
    users_experiment: Experiment, eventful: RandomizationSettings, seed: int, policy: str
) -> None:
    theirs, ours = both(users_experiment, eventful, seed, policy)
    assert_agree(theirs, ours)
    counts = theirs.active_replicas
    assert np.any((counts > 0) & (counts <= 30))
    assert np.any(counts > 30)
    assert len(np.unique(counts, axis=0)) > 3  # ramps changed them


@pytest.mark.parametrize(("v_min_pu", "v_max_pu", "direction"), [(1.04, 1.2, -1), (0.5, 0.9995, 1)])
def test_rules_that_have_much_to_do(
    users_experiment: Experiment, eventful: RandomizationSettings, v_min_pu: float, v_max_pu: float, direction: int
) -> None:
    """Batch sizes go down under undervoltage and up under overvoltage, but where latency is too long already."""
    late = replace(users_experiment.models[0], itl_deadline_s=0.01)
    limits = replace(users_experiment.limits, v_min_pu=v_min_pu, v_max_pu=v_max_pu)
    experiment = replace(users_experiment, limits=limits, models=(late, *users_experiment.models[1:]))
    theirs, ours = both(experiment, eventful, 7, "rule-based")
    assert_agree(theirs, ours)
    steps = direction * np.diff(theirs.batch_sizes, axis=0)
    assert steps.min() == 0
    moved = (steps > 0).any(axis=0)
    assert moved[1:].all()
    assert moved[0] == (direction < 0)


def test_sites_without_noise_or_replicas(shrink_site: Callable[[Site, int], Site]) -> None:
    experiment = load_experiment("ieee34")
    site = shrink_site(experiment.sites[0], 40)
    idle = replace(site, models=(replace(site.models[0], replicas=0, ramps=()), *site.models[1:]))
    quiet = replace(experiment.datacenter, noise_fraction=0.0)
    experiment = replace(experiment, sites=(idle, *experiment.sites[1:]), datacenter=quiet)
    for policy in ("none", "ofo"):
        theirs, ours = both(experiment, RandomizationSettings(randomize_ramps=False), 7, policy)
        assert np.isnan(theirs.itl_s).any()
        assert_agree(theirs, ours)


@pytest.mark.parametrize(
    ("system", "load_factor", "pv_factor", "lowest_pu", "highest_pu"),
    [
        ("ieee123", 45, 1, 0.2, 1.1),
        ("ieee34", 20, 1, 0.6, 1.1),
        ("ieee34", 1, 60, 0.9, 1.3),
        ("ieee13", 45, 1, 0.75, 1.1),
    ],
)
def test_voltages_where_load_models_change(
    system: str, load_factor: float, pv_factor: float, lowest_pu: float, highest_pu: float
) -> None:
    theirs, ours = both(scaled(load_experiment(system), load_factor, pv_factor), RandomizationSettings(), 7, "ofo")
    assert theirs.voltages_pu.min() < lowest_pu or theirs.voltages_pu.max() > highest_pu
    assert_agree(theirs, ours)


def scaled(experiment: Experiment, load_factor: float, pv_factor: float) -> Experiment:
    """The experiment with larger loads and PV systems."""
    more = 200.0 * load_factor * (load_factor > 1)
    loads = tuple(replace(p, peak_kw_per_phase=p.peak_kw_per_phase * load_factor + more) for p in experiment.loads)
    pv = tuple(replace(p, peak_kw_per_phase=p.peak_kw_per_phase * pv_factor) for p in experiment.pv_systems)
    return replace(experiment, loads=loads, pv_systems=pv)


@pytest.mark.parametrize("policy", ["none", "ofo"])
@pytest.mark.parametrize(("system", "load_factor", "pv_factor"), [("ieee123", 1, 40), ("ieee13", 45, 40)])
def test_an_overloaded_feeder_fails_at_the_same_second(
    system: str, load_factor: float, pv_factor: float, policy: str
) -> None:
    experiment = scaled(load_experiment(system), load_factor, pv_factor)
    scenario = randomize_scenario(7, experiment=experiment, settings=RandomizationSettings())
    assets = load_assets(experiment)
    with pytest.raises(PowerFlowError) as theirs:
        run_reference(scenario, experiment, assets, policy, SECONDS)
    with pytest.raises(PowerFlowError) as ours:
        run_policy(compile_scenario(scenario, experiment, assets, SECONDS), policy)
    assert (ours.value.step, ours.value.during) == (theirs.value.step, theirs.value.during)
    assert ours.value.step > 0


@pytest.mark.parametrize("system", ["ieee13", "ieee34", "ieee123"])
def test_as_many_iterations_as_opendss(
    system: str, eventful: RandomizationSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = load_experiment(system)
    scenario = randomize_scenario(7, experiment=experiment, settings=eventful)
    assets = load_assets(experiment)
    theirs: list[int] = []
    solve = ScenarioGrid._solve

    def counted(grid: ScenarioGrid) -> None:
        solve(grid)
        theirs.append(int(dss.Solution.Iterations()))

    monkeypatch.setattr(ScenarioGrid, "_solve", counted)
    rollout = run_reference(scenario, experiment, assets, "none", 200)
    compiled = compile_scenario(scenario, experiment, assets, 200)
    network = compiled.circuit.network
    state = start_state(network)
    ours = [
        solve_second(network, state, compiled.load_arrays, t, rollout.power_w[t], OPENDSS, t == 0) for t in range(200)
    ]
    assert ours == theirs[1:]  # the first one is the start-up's
    assert len(set(ours)) > 1


def test_the_accurate_mode_is_converged() -> None:
    experiment = load_experiment("ieee13")
    scenario = randomize_scenario(7, experiment=experiment, settings=RandomizationSettings())
    compiled = compile_scenario(scenario, experiment, load_assets(experiment), 60)
    accurate = run_compiled(compiled, "none", ACCURATE).voltages_pu
    exact = run_compiled(compiled, "none", Tolerance(1e-12, 1000)).voltages_pu
    assert np.abs(accurate - exact).max() < 1e-7
    assert 1e-6 < np.abs(run_compiled(compiled, "none").voltages_pu - exact).max() < 1e-3


MODELLED = {
    "a generator of constant power": "New Generator.diesel bus1=square phases=3 kv=4.16 kw=90 kvar=20",
    "a generator in delta": "New Generator.diesel bus1=square phases=3 conn=delta kv=4.16 kw=90 kvar=20",
    "storage that rests": "New Storage.battery bus1=square kv=4.16 kwrated=50 kwhrated=100 %idlingkw=0",
    "PV in delta": "New PVSystem.roof bus1=square conn=delta kv=4.16 kva=100 pmpp=90",
    "a generator below its band": "New Generator.diesel bus1=square kv=4.16 kw=90 kvar=20 vminpu=1.06 vmaxpu=1.2",
    "a generator above its band": "New Generator.diesel bus1=square kv=4.16 kw=90 kvar=20 vmaxpu=0.91",
    "a generator as an impedance": "New Generator.diesel bus1=square kv=4.16 kw=90 kvar=20 model=2",
    "PV at a constant irradiance": "New PVSystem.roof bus1=square kv=4.16 kva=100 pmpp=90 irradiance=0.7 pf=0.95",
    "PV of one phase, above its band": "New PVSystem.roof bus1=square.1 phases=1 kv=2.4 kva=100 pmpp=90 vmaxpu=0.9",
    "PV that its inverter limits": "New PVSystem.roof bus1=square kv=4.16 kva=50 pmpp=90 kvar=20",
    "shares of impedance, current and power": (
        "New Load.zip bus1=square kv=4.16 kw=90 kvar=30 model=8 zipv=(0.2 0.3 0.5 0.1 0.2 0.7 0)"
    ),
    "shares, below the band": (
        "New Load.zip bus1=square kv=4.16 kw=90 kvar=30 model=8 vminpu=1.1 zipv=(0.2 0.3 0.5 0.1 0.2 0.7 0)"
    ),
    "shares in delta": (
        "New Load.zip bus1=square.2.3 phases=1 conn=delta kv=4.16 kw=90 kvar=30 model=8 zipv=(.2 .3 .5 .1 .2 .7 0)"
    ),
    "constant watts and quadratic vars": "New Load.motor bus1=square kv=4.16 kw=90 kvar=30 model=3",
    "constant watts and quadratic vars, below the band": (
        "New Load.motor bus1=square kv=4.16 kw=90 kvar=30 model=3 vminpu=1.1 vlowpu=0.9"
    ),
    "a neutral that is not grounded": (
        "New Load.lifted bus1=square.1.2.3.4 kv=4.16 kw=90 kvar=30\nNew Reactor.rod bus1=square.4 phases=1 r=5 x=1"
    ),
    "one phase from line to line": "New Load.across bus1=square.1.2 phases=1 conn=wye kv=4.16 kw=90 kvar=30",
    "two phases in delta": "New Load.open bus1=square.1.2.3 phases=2 conn=delta kv=4.16 kw=90 kvar=30",
    "a load that is disabled": "New Load.closed bus1=square kv=4.16 kw=90 enabled=no",
    "a fault that is disabled": "New Fault.past bus1=square phases=3 r=1 enabled=no",
    "protection that does not act": (
        "New Relay.r monitoredobj=line.main phasetrip=9000\nNew Fuse.f monitoredobj=line.lane ratedcurrent=9000\n"
        "New Recloser.c monitoredobj=line.street phasetrip=9000\nNew SwtControl.s switchedobj=line.street"
    ),
    "a centre-tapped transformer": (
        "New Transformer.service phases=1 windings=3 buses=(square.1 house.1.0 house.0.2) kvs=(2.4 0.12 0.12)\n"
        "~ kvas=(50 50 50) xhl=2 xht=2 xlt=1.4 %rs=(0.6 1.2 1.2)\n"
        "New Load.lamp bus1=house.1 phases=1 kv=0.12 kw=12 kvar=3\nNew Load.oven bus1=house.1.2 phases=1 kv=0.24 kw=20"
    ),
    "loads multiplied, but for fixed ones": (
        "New Load.fixed bus1=square kv=4.16 kw=90 kvar=30 status=fixed\nSet LoadMult=1.1"
    ),
    "a tolerance": "Set Tolerance=0.001",
    "a small tolerance": "Set Tolerance=1e-9\nSet MaxIterations=50",
    "more iterations": "Set MaxIterations=50",
    "at least four iterations": "Set MinIterations=4",
}


@pytest.mark.parametrize("lines", MODELLED.values(), ids=MODELLED)
def test_what_public_circuits_have_is_modelled(users_experiment: Experiment, tmp_path: Path, lines: str) -> None:
    text = Path(users_experiment.feeder.circuit).read_text(encoding="utf-8")
    circuit = tmp_path / "more.dss"
    text = text.replace("Set VoltageBases=[", f"{lines}\nSet VoltageBases=[0.208 ")
    circuit.write_text(text, encoding="utf-8")
    experiment = replace(users_experiment, feeder=replace(users_experiment.feeder, circuit=str(circuit)))
    scenario, assets = base_scenario(experiment), load_assets(experiment)
    compiled = compile_scenario(scenario, experiment, assets, 30)
    ours, theirs = run_compiled(compiled), run_reference(scenario, experiment, assets, n_steps=30)
    assert np.array_equal(ours.power_w, theirs.power_w)
    assert np.abs(ours.voltages_pu - theirs.voltages_pu).max() < AGREEMENT_PU

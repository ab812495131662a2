"""Datacenters: the remembering pool changes nothing, and the training job runs at the first site only."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openg2g.clock import SimulationClock
from openg2g.datacenter.command import SetBatchSize, ShiftReplicas
from openg2g.datacenter.layout import ServerPool
from openg2g.datacenter.offline import OfflineDatacenter
from openg2g.events import EventEmitter

from scenario_lib.feeders.experiment import Experiment, TrainingJob
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.model import Overlay, Scenario
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.scenario.settings import RandomizationSettings, Range
from scenario_lib.simulation.assets import load_assets
from scenario_lib.simulation.opendss.datacenters import build_datacenters
from scenario_lib.simulation.opendss.openg2g_internals import RememberingServerPool, ScenarioDatacenter

RAMPS = RandomizationSettings(
    n_ramps_per_site_choices=(3,), ramp_up_prob=0.4, ramp_start=Range(5, 250), ramp_dur=Range(20, 60)
)


class Deaf:
    """An event sink that keeps nothing."""

    def emit(self, event: object) -> None:
        del event


def plain_twin(datacenter: ScenarioDatacenter) -> OfflineDatacenter:
    """openg2g's own class with the same arguments."""
    return OfflineDatacenter(
        datacenter._datacenter,
        datacenter._workload,
        name=datacenter.name,
        dt_s=Fraction(1),
        seed=datacenter._seed,
        power_augmentation=datacenter._power_augmentation,
        total_gpu_capacity=datacenter.total_gpu_capacity,
    )


def states(datacenter: OfflineDatacenter, n_steps: int) -> Iterator[dict[str, Any]]:
    """States of a run in which batch sizes and replicas are changed on the way."""
    clock = SimulationClock(tick_s=Fraction(1))
    events = EventEmitter(clock, Deaf(), "datacenter")
    datacenter.do_reset()
    datacenter.start()
    labels = [spec.model_label for spec in datacenter._models]
    for step in range(n_steps):
        state = datacenter.do_step(clock, events)
        shares = {label: share.tolist() for label, share in datacenter.phase_share_by_model.items()}
        allocation = {label: servers.tolist() for label, servers in datacenter._last_allocation.items()}
        yield {**asdict(state), "shares": shares, "allocation": allocation}
        if step % 7 == 3:
            batch = (8, 32, 128, 256)[step % 4]
            datacenter.apply_control(SetBatchSize({labels[step % len(labels)]: batch}, target=datacenter), events)
        if step in (100, 130):
            delta = -3 if step == 100 else 3
            datacenter.apply_control(ShiftReplicas(labels[0], delta, target=datacenter), events)
        clock.advance()


def drawn(system: str | Path, seed: int, specs_dir: Path) -> tuple[Scenario, Experiment, dict[str, ScenarioDatacenter]]:
    experiment = load_experiment(system)
    scenario = randomize_scenario(seed, experiment=experiment, settings=RAMPS)
    return scenario, experiment, build_datacenters(scenario, experiment, load_assets(experiment, specs_dir))


@pytest.mark.parametrize("system", ["ieee13", "ieee34"])
def test_step_by_step_it_is_openg2gs_datacenter(system: str, specs_dir: Path) -> None:
    scenario, _, datacenters = drawn(system, 1007, specs_dir)
    assert sum(len(site.models[0].ramps) for site in scenario.sites) >= 3
    for datacenter in datacenters.values():
        assert isinstance(datacenter._pool, RememberingServerPool)
        twin = plain_twin(datacenter)
        assert type(twin._pool) is ServerPool
        replicas = set()
        for found, wanted in zip(states(datacenter, 300), states(twin, 300), strict=True):
            assert found == wanted
            replicas.add(tuple(found["active_replicas_by_model"].values()))
        assert len(replicas) > 20


def test_resetting_starts_over(specs_dir: Path) -> None:
    _, _, datacenters = drawn("ieee13", 7, specs_dir)
    (datacenter,) = datacenters.values()
    assert list(states(datacenter, 150)) == list(states(datacenter, 150))


def test_allocations_are_made_once_per_demand(specs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, datacenters = drawn("ieee13", 7, specs_dir)
    (datacenter,) = datacenters.values()
    calls: list[dict[str, int]] = []
    plain = ServerPool.allocate

    def counted(self: ServerPool, demands: dict[str, int]) -> Any:
        calls.append(dict(demands))
        return plain(self, demands)

    monkeypatch.setattr(ServerPool, "allocate", counted)
    assert len(list(states(datacenter, 300))) == 300
    assert 1 < len(calls) < 200
    assert all(earlier != later for earlier, later in pairwise(calls))


def test_a_remembered_allocation_cannot_be_spoilt(specs_dir: Path) -> None:
    _, _, datacenters = drawn("ieee13", 7, specs_dir)
    (datacenter,) = datacenters.values()
    demand = {spec.model_label: 80 for spec in datacenter._models}
    first = datacenter._pool.allocate(demand)
    first.clear()
    again = datacenter._pool.allocate(demand)
    plain = ServerPool(**{k: v for k, v in vars(datacenter._pool).items() if k != "_remembered"}).allocate(demand)
    assert {label: servers.tolist() for label, servers in again.items()} == {
        label: servers.tolist() for label, servers in plain.items()
    }
    assert set(again) == set(demand)


def test_the_training_job_runs_at_the_first_site_only(specs_dir: Path) -> None:
    experiment = load_experiment("ieee34")
    assets = load_assets(experiment, specs_dir)
    scenario = randomize_scenario(7, experiment=experiment, settings=RAMPS)
    job = TrainingJob(300, 400.0, t_start_s=20.0, t_end_s=50.0)
    trained = replace(scenario, params=replace(scenario.params, training_overlay=Overlay(job, 1.0)))

    def power(one: Scenario) -> dict[str, np.ndarray[Any, Any]]:
        built = build_datacenters(one, experiment, assets)
        rows = {name: [state["power_w"] for state in states(dc, 70)] for name, dc in built.items()}
        return {name: np.array([[row["a"], row["b"], row["c"]] for row in each]) for name, each in rows.items()}

    without, with_job = power(scenario), power(trained)
    assert list(with_job) == ["upstream", "downstream"]
    assert np.array_equal(with_job["downstream"], without["downstream"])
    added_w = with_job["upstream"] - without["upstream"]
    assert (added_w[:20] == 0).all()
    assert (added_w[51:] == 0).all()
    assert (added_w[21:50] > 0).all()
    np.testing.assert_allclose(added_w[:, 0], added_w[:, 1], rtol=0, atol=1e-6)
    assert 3 * added_w.max() <= 300 * 400.0 * (1 + 1e-9)


def test_a_job_without_gpus_is_no_job(specs_dir: Path) -> None:
    scenario, experiment, datacenters = drawn("ieee13", 7, specs_dir)
    assert len(list(datacenters["default"]._workload.training)) == 1
    job = TrainingJob(0, 400.0, t_start_s=20.0, t_end_s=50.0)
    idle = replace(scenario, params=replace(scenario.params, training_overlay=Overlay(job, 1.0)))
    built = build_datacenters(idle, experiment, load_assets(experiment, specs_dir))
    assert list(built["default"]._workload.training) == []


def test_what_a_site_is_reaches_openg2g(village: Experiment, specs_dir: Path) -> None:
    physics = replace(village.datacenter, gpus_per_server=4, amplitude_scale_range=(0.9, 1.1), noise_fraction=0.01)
    experiment = replace(village, datacenter=physics)
    scenario = randomize_scenario(3, experiment=experiment, settings=RAMPS)
    (datacenter,) = build_datacenters(scenario, experiment, load_assets(experiment, specs_dir)).values()
    (site,) = scenario.sites
    assert datacenter.name == "hall"
    assert datacenter.total_gpu_capacity == 640
    assert datacenter._seed == site.seed
    assert datacenter._pool.num_servers == 160
    assert datacenter._pool.noise_fraction == 0.01
    assert 0.9 <= datacenter._pool.amplitude_scales.min() < 0.95
    assert datacenter._datacenter.base_kw_per_phase == 45.0
    assert [spec.model_label for spec in datacenter._models] == [model.label for model in site.models]
    for model in site.models:
        schedule = datacenter._workload.replica_schedules[model.label]
        assert schedule.initial == model.replicas
        assert schedule._ramps == tuple((r.target_replicas, r.t_start_s, r.t_end_s) for r in model.ramps)
        assert datacenter._workload.initial_batch_sizes[model.label] == model.initial_batch_size

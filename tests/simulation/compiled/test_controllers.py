"""The compiled OFO step against openg2g's own optimiser and duals, over random tunings, fits and observations."""

import math
from typing import Any

import numpy as np
import pytest
from mlenergy.data.modeling import LogisticModel
from openg2g.controller.ofo import OFOConfig, PrimalBatchOptimizer, VoltageDualVariables
from openg2g.datacenter.config import InferenceModelSpec

from scenario_lib.simulation.compiled.controllers import (
    OFOModels,
    OFOSettings,
    OFOState,
    nearest_size,
    primal_step,
    update_voltage_duals,
)

N_CASES, N_STEPS = 300, 20
SIZES = (8, 16, 24, 32, 48, 64, 100, 128, 192, 256, 300, 512)


class Case:
    """One site's controller in both forms, before its first step, and what it observes."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.n_models, self.n_bus_phases = int(rng.integers(1, 5)), int(rng.integers(3, 60))
        self.tuning = {
            "primal_step_size": 10 ** rng.uniform(-3, 0),
            "w_throughput": rng.choice([0.0, 10 ** rng.uniform(-4, 0)]),
            "w_switch": rng.choice([0.0, rng.uniform(0, 2)]),
            "voltage_gradient_scale": 10 ** rng.uniform(2, 6),
            "v_min": 0.95,
            "v_max": 1.05,
            "voltage_dual_step_size": 10 ** rng.uniform(-2, 1),
            "latency_dual_step_size": 10 ** rng.uniform(-2, 1),
            "sensitivity_update_interval": 0,
            "sensitivity_perturbation_kw": 100.0,
        }
        self.sizes = sorted(rng.choice(SIZES, int(rng.integers(2, len(SIZES))), replace=False).tolist())
        self.first = rng.choice(self.sizes, self.n_models).tolist()
        self.sensitivity = rng.normal(-2e-5, 2e-5, (self.n_bus_phases, 3))
        self.share = rng.dirichlet(np.ones(3), self.n_models)
        self.deadline_s = rng.uniform(0.05, 0.15, self.n_models)
        self.power, self.latency, self.throughput = (self._fits(scale) for scale in (2000.0, 0.1, 5000.0))

    def _fits(self, scale: float) -> list[LogisticModel]:
        draws = self.rng.uniform((0.1, 3, 0.3, 0), (1, 9, 2, 0.2), (self.n_models, 4))
        return [LogisticModel(L=scale * big, x0=x0, k=k, b0=scale * b) for big, x0, k, b in draws]

    def observed(self) -> tuple[Any, Any, Any]:
        """Voltages (pu), latencies (s) and replicas of one second; a model without replicas has no latency."""
        voltages_pu = self.rng.normal(self.rng.choice([0.96, 1.0, 1.04]), 0.03, self.n_bus_phases)
        replicas = self.rng.integers(0, 300, self.n_models) * (self.rng.random(self.n_models) < 0.9)
        itl_s = np.where(replicas > 0, self.rng.uniform(0.02, 0.2, self.n_models), np.nan)
        return voltages_pu, itl_s, replicas


class Theirs:
    """As openg2g's controller has it, which takes what it needs from a whole simulation."""

    def __init__(self, case: Case) -> None:
        config = OFOConfig(**case.tuning)
        self.case, self.names = case, [f"m{i}" for i in range(case.n_models)]
        self.duals = VoltageDualVariables(case.n_bus_phases, config)
        self.latency_dual = dict.fromkeys(self.names, 0.0)
        fits = [dict(zip(self.names, f, strict=True)) for f in (case.power, case.latency, case.throughput)]
        specs = [
            InferenceModelSpec.model_construct(model_label=name, feasible_batch_sizes=tuple(case.sizes))
            for name in self.names
        ]
        self.optimizer = PrimalBatchOptimizer(
            models=specs,
            feasible_batch_sizes=case.sizes,
            **dict(zip(("power_fits", "latency_fits", "throughput_fits"), fits, strict=True)),
            config=config,
        )
        self.optimizer.init_from_batches(dict(zip(self.names, case.first, strict=True)))

    def step(self, voltages_pu: Any, itl_s: Any, replicas: Any) -> list[int]:
        self.duals.update(voltages_pu)
        rate = self.case.tuning["latency_dual_step_size"]
        for name, latency_s, deadline_s in zip(self.names, itl_s, self.case.deadline_s, strict=True):
            late = rate * (latency_s - deadline_s) if np.isfinite(latency_s) else 0.0
            self.latency_dual[name] = max(self.latency_dual[name] + late, 0.0)
        chosen = self.optimizer.step(
            voltage_dual_diff=self.duals.dual_difference(),
            sensitivity_matrix=self.case.sensitivity,
            phase_share_by_model=dict(zip(self.names, self.case.share, strict=True)),
            latency_dual_by_model=self.latency_dual,
            replica_count_by_model=dict(zip(self.names, map(float, replicas), strict=True)),
        )
        return [chosen[name] for name in self.names]


class Ours:
    """The kernels, for a single site."""

    def __init__(self, case: Case) -> None:
        n, sizes = case.n_models, np.tile(np.array(case.sizes, np.int64), (case.n_models, 1))
        curves = [np.array([(f.L, f.x0, f.k) for f in fits]) for fits in (case.power, case.latency, case.throughput)]
        most = np.array([float(fit.eval(case.sizes[-1])) for fit in case.throughput])
        ends = (np.full(n, math.log2(size)) for size in (case.sizes[0], case.sizes[-1]))
        self.case, self.settings = case, OFOSettings(**case.tuning)
        self.models = OFOModels(*curves, most, case.deadline_s, sizes, np.full(n, len(case.sizes)), *ends)
        x = np.log2(np.array(case.first, float))
        duals = (np.zeros((1, case.n_bus_phases)) for _ in range(2))
        self.state = OFOState(x, x.copy(), np.zeros(n), *duals, case.sensitivity[None].copy())

    def step(self, voltages_pu: Any, itl_s: Any, replicas: Any) -> list[int]:
        levels = np.zeros(self.case.n_models, np.int64)
        by_phase = update_voltage_duals(self.settings, self.state, 0, voltages_pu)
        primal_step(self.settings, self.models, self.state, self.case.share @ by_phase, itl_s, replicas, levels)
        return [self.case.sizes[level] for level in levels]


def test_decisions_are_those_of_openg2g() -> None:
    moved = 0
    for seed in range(N_CASES):
        case = Case(seed)
        theirs, ours = Theirs(case), Ours(case)
        before = case.first
        for step in range(N_STEPS):
            seen = case.observed()
            wanted, found = theirs.step(*seen), ours.step(*seen)
            assert found == wanted, f"case {seed}, step {step}"
            moved += found != before
            before = found
        assert np.array_equal(ours.state.under_dual[0], theirs.duals.dual_undervoltage)
        assert np.array_equal(ours.state.over_dual[0], theirs.duals.dual_overvoltage)
        assert ours.state.latency_dual.tolist() == pytest.approx(list(theirs.latency_dual.values()), rel=1e-12)
        assert ours.state.x.tolist() == pytest.approx(list(theirs.optimizer.log_batch_size_by_model.values()), rel=1e-9)
    assert moved > N_CASES, "most cases are ones in which something is decided"


def test_the_nearest_size_is_openg2gs_also_halfway() -> None:
    sizes = np.array(SIZES, np.int64)
    theirs = PrimalBatchOptimizer(
        models=[],
        feasible_batch_sizes=list(SIZES),
        power_fits={},
        latency_fits={},
        throughput_fits={},
        config=OFOConfig(),
    )
    between = np.concatenate([sizes, (sizes[1:] + sizes[:-1]) / 2, np.linspace(1, 600, 2000)])
    for x in np.log2(between):
        assert SIZES[nearest_size(sizes, len(SIZES), 2.0**x)] == theirs._discretize_batch(x)

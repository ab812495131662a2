"""A first experiment for a circuit that has none: its state as settled, a host bus, and a site of a size that works.

How large a site must be before a scenario has a violation that batch sizes can undo depends on the feeder, so sizes
are tried: a short build each, larger if nothing violates a limit, smaller if nothing recovers.
"""

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import ceil, log
from pathlib import Path
from typing import Any

from scenario_lib._values import few, require_between
from scenario_lib.errors import DataFileError
from scenario_lib.feeders.experiment import Experiment, Feeder, OFOTuning
from scenario_lib.feeders.sites import ModelDeployment, PVSystem, Site, TimeVaryingLoad
from scenario_lib.models.cards import ModelCard, model_cards
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening.build import ProgressHook, build_library
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.criteria import Reason, ScreeningCriteria
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.simulation.compiled.circuit import why_not_modelled
from scenario_lib.simulation.opendss.hosting import (
    UNLIMITED,
    BaseCase,
    Hosting,
    Survey,
    counted_nodes,
    host_buses,
    hosting_capacities,
    started,
    survey,
)

_LABELS = ("Llama-3.3-70B-Instruct-H100x4-chat", "Qwen3-30B-A3B-Instruct-2507-H100x2-chat")
_BATCH_SIZE = 128
_MOST_EXAMINED = 8
"""Hosts whose capacity is determined; on a feeder of thousands of buses all of them take minutes."""
_LIKED_KW, _LEAST_KW = 1000.0, 30.0
"""A site of this power per phase is some thousand GPUs; below the other, replicas are too few to be steered."""
_ROOM_PU = (0.0, 0.005, 0.01)
_BASE_SHARE, _PV_SHARE, _LOAD_SHARE, _SPARE_GPUS = 0.05, 0.3, 0.15, 1.5
_FIRST_SHARE, _LEAST_SHARE, _MOST_SHARE, _STEP, _MOST_TRIALS = 0.95, 0.15, 3.0, 1.25, 8
_TOO_LARGE = {
    Reason.RECOVERY_BELOW_FLOOR,
    Reason.BASELINE_ABOVE_CEILING,
    Reason.POWER_FLOW_DIVERGED,
    Reason.ALWAYS_MIN_CAP,
}


@dataclass(frozen=True, slots=True)
class BaseFound:
    """A circuit without a datacenter.

    Attributes:
        exclude_buses: Buses that no measure may count, because they violate a limit before a datacenter comes.
        room_pu: How near to a limit a bus is excluded (pu).
        not_modelled: What keeps the compiled engine from it.
        hosting: Of the buses that were examined.
    """

    found: Survey
    exclude_buses: tuple[str, ...]
    room_pu: float
    not_modelled: tuple[str, ...]
    hosting: tuple[Hosting, ...]


@dataclass(frozen=True, slots=True)
class SizeTrial:
    """A short build at one size: the site's largest power as a share of what its bus hosts, and the verdicts."""

    share: float
    replicas: tuple[int, ...]
    reasons: dict[str, int]

    @property
    def accepted(self) -> int:
        """Accepted candidates."""
        return self.reasons.get(Reason.ACCEPTED, 0)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A first experiment and what it rests on.

    Attributes:
        host: The bus of the site, and what it hosts.
        share: Of that, what the site draws at the largest batch sizes.
        trials: Sizes that were tried, in their order; empty if none was.
    """

    experiment: Experiment
    base: BaseFound
    host: Hosting
    share: float
    trials: tuple[SizeTrial, ...]

    def to_dict(self) -> dict[str, Any]:
        """What was chosen and why, as plain values; models stand by their labels."""
        experiment = asdict(self.experiment)
        return {
            **{name: experiment[name] for name in ("feeder", "sites", "pv_systems", "loads", "limits")},
            "models": [spec.label for spec in self.experiment.models],
            "host": asdict(self.host),
            "share_of_hosting": self.share,
            "examined": [asdict(host) for host in self.base.hosting],
            "not_modelled": self.base.not_modelled,
            "trials": [asdict(trial) for trial in self.trials],
        }


def suggest_experiment(
    circuit: Path, buses: tuple[str, ...] = (), candidates: int = 20, on_progress: ProgressHook = lambda _: None
) -> Suggestion:
    """Read a circuit and suggest an experiment on it.

    Args:
        circuit: An OpenDSS file.
        buses: Choose the host among these; none means among some of all.
        candidates: Candidates of each short build; 0 tries none. A circuit that the compiled engine does not model
            is not tried either, because that would take an hour.
        on_progress: Called as candidates finish.

    Raises:
        MissingDataError, DataFileError: The circuit cannot be read or solved, or no bus can host a site.
        UnknownNameError: One of `buses` cannot host a datacenter.
    """
    require_between("candidates", candidates, 0, 10_000)
    circuit = circuit.resolve()
    base = _look(circuit, buses)
    host = min(base.hosting, key=lambda hosting: abs(log(hosting.kw_per_phase / _LIKED_KW)))

    def at(share: float) -> Experiment:
        return _experiment(circuit, base, host, share)

    trials = _try_sizes(at, candidates, on_progress) if candidates and not base.not_modelled else ()
    best = max(trials, key=lambda trial: trial.accepted, default=None)
    share = best.share if best is not None and best.accepted else _FIRST_SHARE
    return Suggestion(at(share), base, host, share, trials)


def _look(circuit: Path, buses: tuple[str, ...]) -> BaseFound:
    """Exclude what violates limits, and a little more if what is left would then host nothing."""
    standing = BaseCase(circuit)
    for room_pu in _ROOM_PU:
        with started(standing):  # each time anew: a look at hosts leaves loads behind
            not_modelled = why_not_modelled()
            everything = counted_nodes(())
            found = survey(everything)
            excluded = _excluded(everything.names, everything.voltages_pu().tolist(), standing, room_pu)
            nodes = counted_nodes(excluded)
            if not nodes.names:
                break
            narrowed = replace(standing, exclude_buses=excluded)
            chosen = buses or _spread_hosts(narrowed)
            hosting = tuple(hosting_capacities(narrowed, nodes, chosen)) if chosen else ()
        able = tuple(host for host in hosting if host.kw_per_phase >= _LEAST_KW and host.limited_by != UNLIMITED)
        if able:
            return BaseFound(found, excluded, room_pu, not_modelled, able)
    raise DataFileError(
        f"{circuit}: no three-phase bus can host a site of {_LEAST_KW:g} kW a phase within the limits "
        f"{standing.limits.v_min_pu:g} to {standing.limits.v_max_pu:g} pu; without a datacenter voltages go from "
        f"{found.lowest.voltage_pu:.4f} pu at {found.lowest.node} to {found.highest.voltage_pu:.4f} pu at "
        f"{found.highest.node}, {len(found.outside)} bus-phases outside; correct source, taps or voltage bases"
        + (f", or choose other buses than {few(buses)}" if buses else "")
    )


def _excluded(names: tuple[str, ...], voltages_pu: list[float], standing: BaseCase, room_pu: float) -> tuple[str, ...]:
    low, high = standing.limits.v_min_pu + room_pu, standing.limits.v_max_pu - room_pu
    return tuple(
        dict.fromkeys(
            name.rpartition(".")[0].lower()
            for name, voltage in zip(names, voltages_pu, strict=True)
            if not low <= voltage <= high
        )
    )


def _spread_hosts(standing: BaseCase) -> tuple[str, ...]:
    """Some hosts from all over the circuit, of that medium voltage which most of them have, if any has one."""
    hosts = host_buses(standing)
    medium = {bus: kv for bus, kv in hosts.items() if 1 < kv <= 35} or hosts
    if not medium:
        return ()
    (level, _), *_ = Counter(round(kv, 2) for kv in medium.values()).most_common(1)
    alike = [bus for bus, kv in medium.items() if round(kv, 2) == level]
    step = max(1.0, len(alike) / _MOST_EXAMINED)
    return tuple(alike[int(place * step)] for place in range(min(len(alike), _MOST_EXAMINED)))


def _experiment(circuit: Path, base: BaseFound, host: Hosting, share: float) -> Experiment:
    room_kw = float(host.kw_per_phase)
    others = [hosting for hosting in base.hosting if hosting.bus != host.bus] or [host]
    weaker = min(others, key=lambda hosting: abs(hosting.kw_per_phase - room_kw))
    beside_kw = min(room_kw, weaker.kw_per_phase)
    cards = _cards()
    site = _site(host, (share - _BASE_SHARE) * room_kw, cards)
    return Experiment(
        feeder=Feeder(
            name=circuit.stem,
            circuit=str(circuit),
            initial_taps_pu=base.found.regulator_taps_pu,
            exclude_buses=base.exclude_buses,
            initial_capacitor_steps=base.found.capacitor_steps,
        ),
        sites=(site,),
        pv_systems=(PVSystem(weaker.bus, weaker.bus_kv, round(_PV_SHARE * beside_kw, 1), 1.0),),
        loads=(TimeVaryingLoad(weaker.bus, weaker.bus_kv, round(_LOAD_SHARE * beside_kw, 1), 0.95),),
        models=tuple(card.spec for card in cards),
        ofo=OFOTuning(sensitivity_perturbation_kw=round(min(100.0, room_kw / 10), 1)),
    )


def _cards() -> tuple[ModelCard, ...]:
    by_label = {card.spec.label: card for card in model_cards()}
    return tuple(by_label[label] for label in _LABELS)


def _site(host: Hosting, models_kw_per_phase: float, cards: tuple[ModelCard, ...]) -> Site:
    """A site whose models draw equal shares of a power (kW per phase) at their largest batch sizes."""
    each_w = 3e3 * models_kw_per_phase / len(cards)
    replicas = [max(1, round(each_w / max(row.power_w for row in card.feasible))) for card in cards]
    gpus = sum(count * card.spec.gpus_per_replica for count, card in zip(replicas, cards, strict=True))
    return Site(
        name="datacenter",
        bus=host.bus,
        bus_kv=host.bus_kv,
        base_kw_per_phase=round(_BASE_SHARE * host.kw_per_phase, 1),
        total_gpu_capacity=ceil(_SPARE_GPUS * gpus),
        models=tuple(
            ModelDeployment(card.spec.label, count, _BATCH_SIZE) for card, count in zip(cards, replicas, strict=True)
        ),
    )


def _try_sizes(at: Callable[[float], Experiment], candidates: int, on_progress: ProgressHook) -> tuple[SizeTrial, ...]:
    """Larger or smaller by a step, halving the interval once both sides are known, until a fifth is accepted."""
    trials: list[SizeTrial] = []
    low, high, share = _LEAST_SHARE, _MOST_SHARE, _FIRST_SHARE
    while len(trials) < _MOST_TRIALS:
        trial = _try_size(at(share), share, candidates, on_progress)
        trials.append(trial)
        if 5 * trial.accepted >= candidates:
            break
        if _is_too_large(trial):
            high, share = share, share / _STEP if low == _LEAST_SHARE else (low + share) / 2
        else:
            low, share = share, share * _STEP if high == _MOST_SHARE else (share + high) / 2
        share = round(share, 3)
        if not _LEAST_SHARE < share < _MOST_SHARE or share in {trial.share for trial in trials}:
            break
    return tuple(trials)


def _is_too_large(trial: SizeTrial) -> bool:
    too_large = sum(trial.reasons.get(reason, 0) for reason in _TOO_LARGE)
    return too_large > trial.reasons.get(Reason.NO_VIOLATION, 0)


def _try_size(experiment: Experiment, share: float, candidates: int, on_progress: ProgressHook) -> SizeTrial:
    settings = RandomizationSettings(randomize_ramps=experiment.randomize_ramps_default)
    plan = MeasurePlan(experiment, settings, ScreeningCriteria())
    with tempfile.TemporaryDirectory() as folder:
        options = BuildOptions(Path(folder) / "trial")
        result = build_library(plan, CandidateRequest(candidates=candidates), options, on_progress)
    reasons = Counter(str(candidate.reason) for candidate in result.candidates)
    replicas = tuple(deployment.replicas for deployment in experiment.sites[0].models)
    return SizeTrial(share, replicas, dict(reasons))

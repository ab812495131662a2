"""All that `scenario-lib feeder check` finds out about a user's feeder, as values and as text."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scenario_lib.feeders.catalogue import load_experiment
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.model_cards import model_cards
from scenario_lib.feeders.sites import Site
from scenario_lib.simulation.compiled.refusals import what_is_not_modelled
from scenario_lib.simulation.feeder_check import feeder_faults
from scenario_lib.simulation.own_feeder.hosting import Hosting, hosting_capacities
from scenario_lib.simulation.own_feeder.standing import Standing, counted_nodes, standing_of, started
from scenario_lib.simulation.own_feeder.survey import Survey, survey


@dataclass(frozen=True, slots=True)
class SiteDemand:
    """What a site draws with all its replicas, beside what its bus can host.

    Attributes:
        least_kw_per_phase, most_kw_per_phase: With all models at their smallest or largest feasible batch size.
        hosting_kw_per_phase: Of its bus; None if that could not be determined.
    """

    site: str
    bus: str
    least_kw_per_phase: float
    most_kw_per_phase: float
    hosting_kw_per_phase: int | None


@dataclass(frozen=True, slots=True)
class FeederReport:
    """A checked feeder.

    Attributes:
        faults: What of the experiment does not fit the circuit.
        not_modelled: What keeps the compiled engine from it, by name; the reference engine would be used.
        settled_taps: Whether the taps are those that the circuit's own controls settled at.
        sites: Of the experiment; of models whose figures are known only.
    """

    path: Path
    limits_pu: tuple[float, float]
    power_factor: float
    w_per_gpu: float
    faults: tuple[str, ...]
    not_modelled: tuple[str, ...]
    settled_taps: bool
    found: Survey
    hosting: tuple[Hosting, ...]
    sites: tuple[SiteDemand, ...]

    def gpus(self, hosting: Hosting) -> int:
        """GPUs whose power alone, without anything else in the datacenter, is the capacity of a bus."""
        return int(3e3 * hosting.kw_per_phase / self.w_per_gpu)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        hosting = [{**asdict(host), "gpus": self.gpus(host)} for host in self.hosting]
        return {**asdict(self), "path": str(self.path), "hosting": hosting}


def check_own_feeder(path: Path, w_per_gpu: float, buses: Sequence[str] = ()) -> FeederReport:
    """Check an experiment's TOML file, or a bare OpenDSS circuit.

    Args:
        w_per_gpu: Power of one GPU, by which capacities are also given as numbers of GPUs (W).
        buses: Determine the capacity of these only; none means all.

    Raises:
        UnknownNameError: One of `buses` cannot host a datacenter.
        MissingDataError, DataFileError: A file is missing or is not what it should be.
    """
    experiment = load_experiment(path) if path.suffix == ".toml" else None
    standing = Standing(path) if experiment is None else standing_of(experiment)
    faults = () if experiment is None else tuple(feeder_faults(experiment))
    with started(standing):
        nodes = counted_nodes(standing.exclude_buses)
        found, not_modelled = survey(nodes), what_is_not_modelled()
        hosting = tuple(hosting_capacities(standing, nodes, buses))
    return FeederReport(
        path=path,
        limits_pu=(standing.limits.v_min_pu, standing.limits.v_max_pu),
        power_factor=standing.datacenter.power_factor,
        w_per_gpu=w_per_gpu,
        faults=faults,
        not_modelled=not_modelled,
        settled_taps=standing.taps_pu is None,
        found=found,
        hosting=hosting,
        sites=tuple(_demands(experiment, hosting)) if experiment is not None else (),
    )


def _demands(experiment: Experiment, hosting: tuple[Hosting, ...]) -> Iterator[SiteDemand]:
    capacities = {host.bus.lower(): host.kw_per_phase for host in hosting}
    for site in experiment.sites:
        powers = _kw_per_phase(site, experiment)
        if powers is not None:
            yield SiteDemand(site.name, site.bus, *powers, capacities.get(site.bus.lower()))


def _kw_per_phase(site: Site, experiment: Experiment) -> tuple[float, float] | None:
    """Power with all models at their smallest and largest feasible batch size; None if a model is not known."""
    cards = {card.spec.cache_hash(): card for card in model_cards()}
    least_w, most_w = 0.0, 0.0
    for deployment in site.models:
        spec = experiment.spec(deployment.label)
        card = cards.get(spec.cache_hash())
        if card is None:
            return None
        power_w = {row.batch_size: row.power_w for row in card.figures}
        least_w += deployment.replicas * power_w[min(spec.feasible_batch_sizes)]
        most_w += deployment.replicas * power_w[max(spec.feasible_batch_sizes)]
    return site.base_kw_per_phase + least_w / 3e3, site.base_kw_per_phase + most_w / 3e3

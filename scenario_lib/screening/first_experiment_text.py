"""The file of a first experiment: tables as `read_experiment` reads them, with units and what each figure rests on."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from scenario_lib._files import replacing
from scenario_lib.errors import BuildRefusedError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.feeders.experiment_file import read_experiment
from scenario_lib.feeders.sites import BusPower, Site
from scenario_lib.screening.first_experiment import Suggestion
from scenario_lib.simulation.opendss.hosting import NO_SOLUTION


def write_first_experiment(path: Path, suggestion: Suggestion, overwrite: bool = False) -> Experiment:
    """Write the file, and read back what it says.

    Raises:
        BuildRefusedError: There is such a file already.
    """
    require_absent(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        stream.write(experiment_text(suggestion, path.parent).encode())
    return read_experiment(path)


def require_absent(path: Path, overwrite: bool) -> None:
    """Refuse to replace a file that may hold somebody's work.

    Raises:
        BuildRefusedError: There is such a file.
    """
    if path.exists() and not (overwrite and path.is_file()):
        raise BuildRefusedError(f"{path}: there is such a file already; choose another --out, or add --overwrite")


def experiment_text(suggestion: Suggestion, folder: Path) -> str:
    """The file's text; the circuit is named from `folder`."""
    return "\n".join([*_feeder(suggestion, folder), *_site(suggestion), *_others(suggestion), ""])


def _feeder(suggestion: Suggestion, folder: Path) -> Iterator[str]:
    experiment, base = suggestion.experiment, suggestion.base
    feeder, found = experiment.feeder, base.found
    yield "# Written by 'scenario-lib feeder init': a first experiment, to be changed."
    yield "# Units: kW per phase, kV line to line (bus_kv), seconds, pu."
    yield ""
    yield "[feeder]"
    yield f"name = {_text(feeder.name)}"
    yield f"circuit = {_text(_relative(Path(feeder.circuit), folder))}"
    yield f"# source_pu = {found.source_pu:g}  # the circuit's own, which holds as long as this is left out"
    if feeder.exclude_buses:
        near = f" or are within {base.room_pu:g} pu of them" if base.room_pu else ""
        yield f"# These violate limits before a datacenter comes{near}, so no control could help there:"
    yield f"exclude_buses = {_list(feeder.exclude_buses)}"
    yield from _states("initial_taps_pu", "Taps (pu) as the circuit's own controls settled", feeder.initial_taps_pu)
    steps = {name: list(states) for name, states in feeder.initial_capacitor_steps.items()}
    yield from _states("initial_capacitor_steps", "Steps of switched capacitors as they settled, 1 for closed", steps)
    yield ""
    yield "[limits]  # ANSI C84.1 Range A"
    yield f"v_min_pu = {experiment.limits.v_min_pu}"
    yield f"v_max_pu = {experiment.limits.v_max_pu}"


def _states(table: str, comment: str, states: dict[str, float] | dict[str, list[int]]) -> Iterator[str]:
    if states:
        yield ""
        yield f"[feeder.{table}]  # {comment}; nothing moves them during the hour"
        for name, state in states.items():
            yield f"{_text(name)} = {state}"


def _site(suggestion: Suggestion) -> Iterator[str]:
    (site,), host = suggestion.experiment.sites, suggestion.host
    yield ""
    first = (
        "the power flow has no solution" if host.limited_by == NO_SOLUTION else f"{host.limited_by} is below the limit"
    )
    yield f"# Bus {host.bus} hosts {host.kw_per_phase} kW per phase before {first};"
    yield f"# at the largest batch sizes this site draws {100 * suggestion.share:.0f} % of that. {_tried(suggestion)}"
    yield "[[sites]]"
    yield f"name = {_text(site.name)}"
    yield f"bus = {_text(site.bus)}"
    yield f"bus_kv = {site.bus_kv}"
    yield f"base_kw_per_phase = {site.base_kw_per_phase}  # cooling and all else that does not depend on batch sizes"
    yield f"total_gpu_capacity = {site.total_gpu_capacity}  # drawn ramps may start more replicas than below"
    yield "models = ["
    yield from _models(site)
    yield "]"


def _models(site: Site) -> Iterator[str]:
    for model in site.models:
        yield (
            f"    {{ label = {_text(model.label)}, replicas = {model.replicas}, "
            f"initial_batch_size = {model.initial_batch_size} }},"
        )


def _tried(suggestion: Suggestion) -> str:
    if not suggestion.trials:
        return "No build was tried."
    best = max(suggestion.trials, key=lambda trial: trial.accepted)
    return f"A trial build accepted {best.accepted} of {sum(best.reasons.values())} candidates."


def _others(suggestion: Suggestion) -> Iterator[str]:
    experiment = suggestion.experiment
    for table, powers in (("pv_systems", experiment.pv_systems), ("loads", experiment.loads)):
        for power in powers:
            yield from _power(table, power)
    yield ""
    yield "[ofo]"
    yield f"sensitivity_perturbation_kw = {experiment.ofo.sensitivity_perturbation_kw}"


def _power(table: str, power: BusPower) -> Iterator[str]:
    yield ""
    yield f"[[{table}]]  # made up: put your own here"
    yield f"bus = {_text(power.bus)}"
    yield f"bus_kv = {power.bus_kv}"
    yield f"peak_kw_per_phase = {power.peak_kw_per_phase}"
    yield f"power_factor = {power.power_factor}"


def _relative(circuit: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(circuit, folder.resolve())).as_posix()
    except ValueError:  # on another drive
        return circuit.as_posix()


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: tuple[str, ...]) -> str:
    return json.dumps(values, ensure_ascii=False)

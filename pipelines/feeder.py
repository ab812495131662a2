"""`scenario-lib feeder`: what a circuit of one's own is, and what it can host."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from scenario_lib._values import few
from scenario_lib.errors import InvalidSettingError
from scenario_lib.screening.first_experiment import Suggestion, suggest_experiment
from scenario_lib.screening.first_experiment_text import require_absent, write_first_experiment
from scenario_lib.simulation.opendss.check import FeederReport, check_own_feeder
from scenario_lib.simulation.opendss.hosting import VoltageExtreme

from .build import EXIT_NOTHING_ACCEPTED
from .console import aligned, echo_facts, json_option, progress_bar, show_progress

_H100_LIMIT_W = 700.0
"""Power limit of an H100 SXM (NVIDIA, H100 data sheet); that of a B200 is 1000 W."""

EXIT_DOES_NOT_FIT = 1


@click.group("feeder")
def feeder_command() -> None:
    """Look at a feeder of your own: what was found, what it can host, what does not fit.

    \b
    Example: scenario-lib feeder check village/village.dss
    Exit codes: 0 fits; 1 something does not fit or cannot be read; 2 usage.
    """


@feeder_command.command("check")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--gpu-watts",
    type=click.FloatRange(min=1),
    default=_H100_LIMIT_W,
    show_default=True,
    help="Power of one GPU, to give capacities as GPUs; 700 W is the limit of an H100 SXM.",
)
@click.option(
    "--bus", "buses", multiple=True, help="Give only the capacity of this bus; repeat for more.  [default: all]"
)
@json_option
def check(file: Path, gpu_watts: float, buses: tuple[str, ...], as_json: bool) -> None:
    """Check FILE: an experiment's TOML file, or an OpenDSS circuit that has none yet.

    \b
    Example: scenario-lib feeder check village/village.dss

    Prints what the circuit is made of, its voltages without a datacenter, how much datacenter each three-phase bus can
    host before a voltage falls below the limit, what the compiled engine does not model, and what of the experiment
    does not fit.

    \b
    Exit codes: 0 fits; 1 something does not fit or cannot be read; 2 usage.
    """
    report = check_own_feeder(file, gpu_watts, buses)
    echo_facts(report.to_dict(), _lines(report), as_json)
    if report.faults:
        sys.exit(EXIT_DOES_NOT_FIT)


@feeder_command.command("init")
@click.argument("circuit", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The experiment's TOML file.")
@click.option("--bus", "buses", multiple=True, help="Choose the site's bus among these.  [default: some of all]")
@click.option(
    "--candidates",
    type=click.IntRange(0, 10_000),
    default=20,
    show_default=True,
    help="Candidates of each trial build, by which the site is sized; 0 tries none.",
)
@click.option("--overwrite", is_flag=True, help="Replace a file that is there.")
@json_option
def init(circuit: Path, out: Path, buses: tuple[str, ...], candidates: int, overwrite: bool, as_json: bool) -> None:
    """Write a first experiment for CIRCUIT, an OpenDSS file: a file to build with as it is, and to change.

    \b
    Example: scenario-lib feeder init village/village.dss --out village/experiment.toml

    Takes taps and capacitors as their controls settle, leaves out buses that violate limits before a datacenter comes,
    chooses a bus for the site, and tries short builds until one accepts some.

    \b
    Exit codes: 0 written; 1 refused or failed; 2 usage; 5 written, but no trial build accepted anything.
    """
    _require_named_toml(out)
    require_absent(out, overwrite)
    with progress_bar(unit="candidate") as bar:
        suggestion = suggest_experiment(circuit, buses, candidates, lambda progress: show_progress(bar, progress))
    write_first_experiment(out, suggestion, overwrite)
    echo_facts({"path": str(out), **suggestion.to_dict()}, _chosen(out, suggestion), as_json)
    if suggestion.trials and not any(trial.accepted for trial in suggestion.trials):
        sys.exit(EXIT_NOTHING_ACCEPTED)


def _require_named_toml(out: Path) -> None:
    """Refuse a name under which no command would read the file."""
    if out.suffix != ".toml":
        raise InvalidSettingError(f"--out is {str(out)!r}; expected a name that ends in .toml")


def _chosen(out: Path, suggestion: Suggestion) -> Iterator[str]:
    base, host = suggestion.base, suggestion.host
    feeder, (site,) = suggestion.experiment.feeder, suggestion.experiment.sites
    if feeder.exclude_buses:
        yield (
            f"left out            {len(feeder.exclude_buses)} buses: outside the limits before a datacenter comes, or "
            f"within {base.room_pu:g} pu of them: {few(feeder.exclude_buses)}"
        )
    states = [*feeder.initial_taps_pu, *feeder.initial_capacitor_steps]
    yield f"as settled          {few(states) or 'no regulator, no switched capacitor'}"
    yield (
        f"site                bus {host.bus}, {host.bus_kv:g} kV: hosts {host.kw_per_phase} kW per phase (limited by "
        f"{host.limited_by}), of {len(base.hosting)} buses examined the nearest to a thousand"
    )
    for trial in suggestion.trials:
        verdicts = ", ".join(f"{count} {reason}" for reason, count in trial.reasons.items())
        yield f"tried               {100 * trial.share:.0f} % of it, {trial.replicas} replicas: {verdicts}"
    for what in base.not_modelled:
        yield f"engine              reference, because the compiled one does not model {what}; no size was tried"
    replicas = ", ".join(f"{model.replicas} of {model.label}" for model in site.models)
    yield f"chosen              {100 * suggestion.share:.0f} %: {replicas}"
    yield f"next                scenario-lib build --system {out} --candidates 24 --out libraries/{feeder.name}"


def _lines(report: FeederReport) -> Iterator[str]:
    yield str(report.path)
    yield from _found(report)
    yield from _doubts(report)
    yield from _engine(report)
    for demand in report.sites:
        capacity = demand.hosting_kw_per_phase
        hosts = "was not examined or cannot host it" if capacity is None else f"hosts {capacity} kW"
        yield (
            f"site {demand.site:15}{demand.least_kw_per_phase:.0f} to {demand.most_kw_per_phase:.0f} kW per phase by "
            f"batch size, all replicas running; bus {demand.bus} {hosts}"
        )
    yield ""
    yield from _hosting(report)
    for fault in report.faults:
        yield f"does not fit        {fault}"


def _found(report: FeederReport) -> Iterator[str]:
    found = report.found
    phases = ", ".join(f"{count} of {n} phases" for n, count in found.buses.items())
    levels = ", ".join(
        f"{count} at {kv:g} kV" if kv else f"{count} without a base" for kv, count in found.kv_levels.items()
    )
    yield f"buses               {sum(found.buses.values())}: {phases}; {levels}"
    yield f"loads               {found.loads}: {found.load_kw:.0f} kW, {found.load_kvar:.0f} kvar"
    yield f"lines, transformers {found.lines}, {found.transformers}; losses {found.losses_kw:.1f} kW"
    steps = ", ".join(f"{name} = {list(states)}" for name, states in found.capacitor_steps.items())
    kept = ", as their controls settled; keep them as [feeder.initial_capacitor_steps]" if report.settled_taps else ""
    switched = f"; {steps}{kept}" if steps else ""
    yield f"capacitors          {found.capacitors}: {found.capacitor_kvar:.0f} kvar{switched}"
    others = ", ".join(f"{count} {name}" for name, count in found.other_elements.items())
    if others:
        yield f"other elements      {others}"
    taps = ", ".join(f"{name} = {tap:g}" for name, tap in found.regulator_taps_pu.items())
    origin = ", as their controls settled; keep them as [feeder.initial_taps_pu]" if report.settled_taps else ""
    yield f"regulators          {taps}{origin}" if taps else "regulators          none"
    low, high = found.lowest, found.highest
    inside = not found.outside
    yield (
        f"source              {found.source_pu:g} pu at {found.frequency_hz:g} Hz, loads times "
        f"{found.load_multiplier:g}; at most {found.max_iterations} iterations to {found.tolerance_pu:g} pu"
    )
    yield (
        f"without datacenter  {low.voltage_pu:.4f} pu at {low.node} to {high.voltage_pu:.4f} pu at {high.node}; "
        f"{'inside' if inside else 'OUTSIDE'} the limits {report.limits_pu[0]:g} to {report.limits_pu[1]:g}"
    )


def _doubts(report: FeederReport) -> Iterator[str]:
    """What of the base case makes its figures doubtful, and what to do about it."""
    found = report.found
    if found.dead:
        yield (
            f"without voltage     {few(found.dead)}: neutrals, or behind open switches; not counted here, but in every "
            f"rollout: put their buses into exclude_buses"
        )
    if found.implausible:
        yield (
            f"implausible         {_named(found.implausible)}: correct Set VoltageBases, or put their buses into "
            f"exclude_buses"
        )
    if found.outside:
        yield (
            f"outside the limits  {len(found.outside)} bus-phases before any datacenter: {_named(found.outside)}; "
            f"correct source, taps or limits, or put their buses into exclude_buses"
        )


def _named(nodes: Sequence[VoltageExtreme]) -> str:
    return few(f"{node.node} ({node.voltage_pu:.4f} pu)" for node in nodes)


def _engine(report: FeederReport) -> Iterator[str]:
    if not report.not_modelled:
        yield "engine              compiled: everything in the circuit is modelled"
    for what in report.not_modelled:
        yield f"engine              reference, because the compiled one does not model {what}"


def _hosting(report: FeederReport) -> Iterator[str]:
    head = ("bus", "kV", "kW per phase", f"GPUs of {report.w_per_gpu:g} W", "first below the limit")
    rows = [
        (host.bus, f"{host.bus_kv:g}", f"{host.kw_per_phase}", f"{report.gpus(host)}", host.limited_by)
        for host in report.hosting
    ]
    yield from aligned([head, *rows])
    yield (
        f"{len(rows)} three-phase buses examined as hosts of a datacenter: one at a time, balanced, at power factor "
        f"{report.power_factor:g}, by voltage alone"
    )

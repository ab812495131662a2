"""`scenario-lib feeder`: what a circuit of one's own is, and what it can host."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from scenario_lib._values import few
from scenario_lib.simulation.opendss.check import FeederReport, check_own_feeder
from scenario_lib.simulation.opendss.hosting import VoltageExtreme

from .console import aligned, echo_facts, json_option

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

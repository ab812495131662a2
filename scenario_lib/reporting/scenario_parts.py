"""The parts of a library's page that show single scenarios, played again."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scenario_lib.errors import ScenarioLibError
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.plotting.feeder import plot_feeder, worst_voltages
from scenario_lib.plotting.scenario import plot_played
from scenario_lib.reporting.choose import Chosen
from scenario_lib.reporting.page import Picture, Section, Table
from scenario_lib.reporting.text import number, percent
from scenario_lib.screening.record_rollouts import RecordRollouts, play_record


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """What rollouts are played with.

    Attributes:
        specs_dir: Spec cache; None means the shipped one.
        system: Experiment file, for a library on a feeder of the user's own.
    """

    specs_dir: Path | None = None
    system: str | None = None


READING = (
    "Lines of voltages: the lowest and the highest of all bus-phases; filled: outside the limits, which are dotted. "
    "Shaded: the control window. A model's power is its mean at the batch size in use times its GPUs. Batch lines are "
    "moved apart a little where they would hide each other. Maps show, without control, of each bus the voltage of "
    "the hour that is farthest from the middle of the band."
)
"""How the pictures of all parts are read."""


def scenario_parts(library: ScenarioLibrary, chosen: Chosen, options: PlayOptions) -> tuple[Section, ...]:
    """One part a record; where it cannot be played, the part says why."""
    return tuple(_part(library, record, why, options) for record, why in chosen)


def _part(library: ScenarioLibrary, record: ScenarioRecord, why: str, options: PlayOptions) -> Section:
    title = f"Seed {record.seed} ({why})"
    table = _facts(record)
    try:
        played = play_record(library, record, options.specs_dir, options.system)
    except ScenarioLibError as error:
        return Section(title, (f"Not shown: {error}",), (table,))
    pictures = [_hour(played), *_map(played)]
    return Section(title, (_agreement(played),), (table,), tuple(pictures))


def _facts(record: ScenarioRecord) -> Table:
    rows = (
        ("integral violation", number(record.baseline_integral, "pu s"), number(record.ofo_integral, "pu s")),
        ("seconds outside", number(record.baseline_violation_time_s, "s"), number(record.ofo_violation_time_s, "s")),
    )
    window = f"{record.t_control_start} to {record.t_control_end} s"
    caption = f"{record.kind}; recovery {percent(record.recovery_frac)}; control window {window}"
    return Table(caption, ("", "without control", "under OFO"), rows)


def _agreement(played: RecordRollouts) -> str:
    apart = played.largest_difference_pu2
    if apart == 0:
        return f"Played again on the {played.engine} engine; both penalty traces equal the stored ones, bit for bit."
    return (
        f"Played again on the {played.engine} engine; penalties differ from the stored traces by up to "
        f"{apart:.2g} pu², so this is not exactly what was screened."
    )


def _hour(played: RecordRollouts) -> Picture:
    record, limits = played.record, played.experiment.limits
    low, high = (
        [float(extreme(rollout.voltages_pu)) for rollout in (played.baseline, played.ofo)]
        for extreme in (np.min, np.max)
    )
    batches = played.ofo.batch_sizes
    alt = (
        f"Over the hour, voltages without control range from {low[0]:.3f} to {high[0]:.3f} pu, under OFO from "
        f"{low[1]:.3f} to {high[1]:.3f} pu, with limits {limits.v_min_pu:g} and {limits.v_max_pu:g} pu. OFO sets "
        f"batch sizes between {batches.min()} and {batches.max()}. The control window from "
        f"{record.t_control_start} to {record.t_control_end} s is shaded."
    )
    caption = f"The hour of seed {record.seed}, without control and under OFO."
    return Picture(f"scenario-{record.index}-{record.seed}", plot_played(played), alt, caption)


def _map(played: RecordRollouts) -> list[Picture]:
    """The feeder with its worst voltages; nothing for a feeder without coordinates."""
    record, limits = played.record, played.experiment.limits
    worst = worst_voltages(played.baseline, limits)
    try:
        figure = plot_feeder(played.experiment, worst)
    except ScenarioLibError:
        return []
    outside = [bus for bus, value in worst.items() if not limits.v_min_pu <= value <= limits.v_max_pu]
    alt = (
        f"Map of the feeder. Without control {len(outside)} of {len(worst)} buses leave the band of "
        f"{limits.v_min_pu:g} to {limits.v_max_pu:g} pu{': ' + ', '.join(outside[:12]) if outside else ''}"
        f"{' and others' if len(outside) > 12 else ''}."
    )
    caption = f"Where seed {record.seed} leaves the band without control."
    return [Picture(f"map-{record.index}-{record.seed}", figure, alt, caption)]

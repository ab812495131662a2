"""What a page says about a library, gathered once: contents, candidates, draws, and whether it holds.

Where a library comes from, and whether it still is what was written.

Which scenarios of a library say most about it.

The parts of a library's page that show single scenarios, played again.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scenario_lib.analysis.draws import CandidateColumns, Draws, columns_of_records, columns_of_table, draws_of_table
from scenario_lib.analysis.info import LibraryInfo, library_info, threshold_text
from scenario_lib.errors import ScenarioLibError
from scenario_lib.library.candidates import read_candidates
from scenario_lib.library.layout import CANDIDATES, FORMAT_VERSION
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.metadata import LibraryContents, read_contents
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.plotting.feeder import plot_feeder, worst_voltages
from scenario_lib.plotting.hour import plot_played
from scenario_lib.reporting.page import DASH, Picture, Section, Table, counted, number, percent
from scenario_lib.validation.findings import Grade
from scenario_lib.validation.replay import RecordRollouts, play_record
from scenario_lib.validation.validate import ReplayOptions, ValidationReport, validate_library


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """A library as a page needs it.

    Attributes:
        library: None if it accepted nothing.
        columns: All candidates; the records alone where there is no candidates table.
        draws: None where there is no candidates table.
        validation: Of files and draws; None for a library that accepted nothing.
    """

    info: LibraryInfo
    contents: LibraryContents
    library: ScenarioLibrary | None
    columns: CandidateColumns
    draws: Draws | None
    validation: ValidationReport | None

    @property
    def has_table(self) -> bool:
        """Whether rejected candidates are known."""
        return self.draws is not None

    def kinds(self) -> dict[str, int]:
        """Accepted scenarios by kind of violation."""
        kept = self.columns.kind[self.columns.accepted]
        return {kind: int(np.count_nonzero(kept == kind)) for kind in ("under", "over", "mixed")}

    def accepted(self, name: str) -> Iterator[float]:
        """One column of the accepted candidates."""
        yield from getattr(self.columns, name)[self.columns.accepted].tolist()


def library_facts(path: Path) -> LibraryFacts:
    """Read a library, draw its candidates again, and check its files and draws.

    Raises:
        LibraryError: Not a library, or damaged.
    """
    path = path.resolve()
    info, contents = library_info(path), read_contents(path)
    library = ScenarioLibrary(path) if contents.records else None
    columns, draws = columns_of_records(contents.records), None
    if contents.digests:
        with contents.unchanged(path / CANDIDATES) as stream:
            table = read_candidates(path / CANDIDATES, stream)
        columns, draws = columns_of_table(table), draws_of_table(table, contents.recipes)
    validation = validate_library(path, ReplayOptions()) if library is not None else None
    return LibraryFacts(info, contents, library, columns, draws, validation)


_VERDICTS = {
    Grade.HELD: ("good", "Held: files are those that were written, and every record is drawn again as it was."),
    Grade.WITHIN_TOLERANCE: ("open", "Held within tolerance."),
    Grade.EXPLAINED: ("open", "Held but for decisions on a rounding boundary."),
    Grade.NOT_VERIFIABLE: ("open", "Cannot be verified: the library has no digests."),
    Grade.DIFFERS: ("bad", "Differs: something is not as it was written."),
}


def verdict_text(facts: LibraryFacts) -> str:
    """The verdict on files and draws in a few words."""
    if facts.validation is None:
        return "nothing to validate"
    return _VERDICTS[facts.validation.grade][1].partition(":")[0].rstrip(".").lower()


def provenance_section(facts: LibraryFacts) -> Section:
    """Verdict, versions, engines, screening, recipes, digests."""
    text, verdict = ["No record was accepted, so there is nothing to replay."], "open"
    if facts.validation is not None:
        verdict, sentence = _VERDICTS[facts.validation.grade]
        text = [f"{sentence} Rollouts were not run again: 'scenario-lib validate LIBRARY --replay all' does that."]
        text += [finding.message for finding in facts.validation.findings[:10]]
        if len(facts.validation.findings) > 10:
            text.append(f"and {len(facts.validation.findings) - 10} more findings")
    if not facts.contents.reproducible:
        text.append("Not reproducible: some candidates were decided by a timeout or a dead worker.")
    tables = [_origin(facts), *_screening(facts), *_recipes(facts), *_digests(facts)]
    return Section("Provenance", tuple(text), tuple(tables), verdict=verdict)


def _origin(facts: LibraryFacts) -> Table:
    engines = Counter(record.digests.engine for record in facts.contents.records if record.digests)
    own = bool(facts.contents.digests)
    rows = [
        ("feeders", ", ".join(facts.info.systems)),
        ("screened on engine", counted(dict(engines)) if own else "not stated"),
        ("format version", str(FORMAT_VERSION) if own else "openg2g's example"),
        *((f"built with {name}", version) for name, version in facts.contents.versions.items()),
    ]
    return Table("Origin", ("what", "value"), tuple(rows))


def _screening(facts: LibraryFacts) -> Iterator[Table]:
    """The criteria; of a library of several recipes, a column for each where they were screened otherwise."""
    recipes = facts.contents.recipes
    criteria = {name: facts.contents.screening_of(name) for name in recipes}
    if all(one == facts.contents.screening for one in criteria.values()):
        criteria = {"value": facts.contents.screening}
    names = dict.fromkeys(name for one in criteria.values() for name in one)
    rows = tuple(
        (name, *(threshold_text(one[name]) if name in one else DASH for one in criteria.values())) for name in names
    )
    if rows:
        yield Table("Screening criteria", ("criterion", *criteria), rows)


def _recipes(facts: LibraryFacts) -> Iterator[Table]:
    for name, recipe in facts.contents.recipes.items():
        caption = f"Recipe {name}" if name else "Recipe"
        yield Table(f"{caption}: settings of the draws", ("setting", "value"), tuple(_settings(recipe)), folded=True)
        if recipe.data is not None:
            rows = (
                ("circuit", recipe.data.circuit),
                ("power traces and fits", recipe.data.models),
                ("training trace", recipe.data.training_trace),
            )
            yield Table(f"{caption}: digests of its data", ("data", "SHA-256"), rows, folded=True)


def _settings(recipe: Recipe) -> Iterator[tuple[str, str]]:
    yield "system", recipe.experiment.name
    for setting, value in recipe.settings.to_openg2g().items():
        yield setting, json.dumps(value)


def _digests(facts: LibraryFacts) -> Iterator[Table]:
    if facts.contents.digests:
        yield Table("Digests of the files", ("file", "SHA-256"), tuple(facts.contents.digests.items()), folded=True)


TellingRecords = list[tuple[ScenarioRecord, str]]
"""Records, and why each was chosen."""


def asked_records(library: ScenarioLibrary, seeds: Sequence[int]) -> TellingRecords:
    """The records of these seeds.

    Raises:
        UnknownNameError: No record, or more than one, has that seed.
    """
    return [(library.record_for(seed), "asked for") for seed in seeds]


def telling_records(library: ScenarioLibrary) -> TellingRecords:
    """The hardest, the least recovered, that of median recovery, and the middle one of each kind; each record once."""
    records = list(library)
    picks = [
        (max(records, key=lambda record: record.baseline_integral), "hardest: the largest baseline integral"),
        (min(records, key=lambda record: record.recovery_frac), "least recovered by OFO"),
        (_middle(records, lambda record: record.recovery_frac), "median recovery"),
    ]
    kinds = list(dict.fromkeys(record.kind for record in records))
    for kind in kinds if len(kinds) > 1 else ():
        members = [record for record in records if record.kind == kind]
        picks.append((_middle(members, lambda record: record.baseline_integral), f"typical of its kind ({kind})"))
    why: dict[int, list[str]] = {}
    for record, reason in picks:
        why.setdefault(record.index, []).append(reason)
    return [(records[index], "; ".join(reasons)) for index, reasons in why.items()]


def _middle(records: Sequence[ScenarioRecord], figure: Callable[[ScenarioRecord], float]) -> ScenarioRecord:
    order = np.argsort([figure(record) for record in records], kind="stable")
    return records[int(order[(len(order) - 1) // 2])]


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


def scenario_parts(library: ScenarioLibrary, chosen: TellingRecords, options: PlayOptions) -> tuple[Section, ...]:
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

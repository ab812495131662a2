"""The page of one library."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from scenario_lib.errors import MissingDataError, ScenarioLibError
from scenario_lib.feeders.bus_coordinates import FILE_NAME
from scenario_lib.library.loader import ScenarioLibrary
from scenario_lib.library.recipe import located_experiment
from scenario_lib.plotting.candidates import plot_verdicts
from scenario_lib.plotting.feeder import plot_feeder
from scenario_lib.reporting.candidate_sections import difficulty_section, draws_section, windows_section
from scenario_lib.reporting.choose import asked_records, telling_records
from scenario_lib.reporting.library_facts import LibraryFacts, library_facts
from scenario_lib.reporting.page import Page, Picture, Section, Table
from scenario_lib.reporting.provenance import provenance_section, verdict_text
from scenario_lib.reporting.scenario_parts import READING, PlayOptions, scenario_parts
from scenario_lib.reporting.text import counted, percent, percent_spread, spread
from scenario_lib.screening.criteria import Reason

MEANING: dict[Reason, str] = {
    Reason.ACCEPTED: "has a violation, and OFO removes enough of it",
    Reason.NO_VIOLATION: "the baseline stays within its limits, so there is nothing to learn",
    Reason.BASELINE_BELOW_FLOOR: "the violation is too small to matter",
    Reason.BASELINE_ABOVE_CEILING: "the violation is too large",
    Reason.RECOVERY_BELOW_FLOOR: "GPU flexibility cannot fix enough of it",
    Reason.RECOVERY_ABOVE_CEILING: "OFO fixes more than the band allows",
    Reason.ALWAYS_MIN_CAP: "OFO only sets the smallest batches, and enough such scenarios are in already",
    Reason.KIND_NOT_WANTED: "its stratum asks for other kinds of violation",
    Reason.QUOTA_FULL: "its stratum has enough scenarios of this kind",
    Reason.NEEDS_RUN: "other thresholds need a rollout that was not simulated",
    Reason.POWER_FLOW_DIVERGED: "the power flow did not converge",
    Reason.ERROR: "raised an error; says nothing about the scenario",
    Reason.TIMEOUT: "took too long; says nothing about the scenario",
    Reason.WORKER_DIED: "killed its worker; says nothing about the scenario",
}
"""What each verdict says of a candidate."""


def library_page(path: Path, seeds: Sequence[int] = (), options: PlayOptions | None = None) -> Page:
    """What is inside and why, how difficult it is, what was drawn, single scenarios, provenance.

    Args:
        path: The library, which may have accepted nothing.
        seeds: Scenarios to show; empty for the most telling ones.
        options: What they are played with.

    Raises:
        LibraryError: Not a library, or damaged; or empty though seeds are asked for.
        UnknownNameError: A seed is not there.
    """
    # Before any work: a seed that is not there is refused at once.
    asked = asked_records(ScenarioLibrary(path), seeds) if seeds else []
    facts, options = library_facts(path), options or PlayOptions()
    systems = ", ".join(facts.info.systems)
    sections = [
        _inside(facts),
        *difficulty_section(facts),
        *windows_section(facts),
        *draws_section(facts),
        *_feeders(facts, options),
    ]
    if facts.library is not None:
        chosen = asked or telling_records(facts.library)
        sections.append(Section("Scenarios", (READING,), parts=scenario_parts(facts.library, chosen, options)))
    return Page(f"Scenario library on {systems}", _lead(facts), (*sections, provenance_section(facts)))


def _lead(facts: LibraryFacts) -> str:
    accepted = int(np.count_nonzero(facts.columns.accepted))
    share = f"{accepted} of {len(facts.columns)} candidates accepted" if facts.has_table else f"{accepted} scenarios"
    if not accepted:
        return f"{share}; the reasons are below."
    return (
        f"{share} ({counted(facts.kinds())}); OFO removes {percent_spread(facts.accepted('recovery_frac'))} of the "
        f"violation; files and draws: {verdict_text(facts)}."
    )


def _inside(facts: LibraryFacts) -> Section:
    n = int(np.count_nonzero(facts.columns.accepted))
    rows = (
        ("scenarios", f"{n} ({counted(facts.kinds())})"),
        ("with training overlay", str(facts.info.overlays)),
        ("baseline integral", spread(facts.accepted("baseline_integral_pu_s"), "pu s")),
        ("recovery by OFO", percent_spread(facts.accepted("recovery_frac"))),
        ("control window", spread(facts.accepted("window_length_s"), "s")),
    )
    tables = [Table("Accepted scenarios", ("what", "lowest to highest"), rows)]
    tables += _strata(facts)
    text: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    if facts.has_table:
        counts = dict(Counter(facts.columns.reason.tolist()).most_common())
        tables.append(_reasons(counts))
        alt = f"Bars of {len(facts.columns)} candidates by verdict: {counted(_words(counts))}."
        pictures = (Picture("verdicts", plot_verdicts(facts.columns), alt, "Candidates by verdict."),)
    else:
        text = ("The library has no candidates table, so nothing is known of what was rejected.",)
    return Section("What is inside", text, tuple(tables), pictures)


def _strata(facts: LibraryFacts) -> Iterator[Table]:
    if facts.info.strata:
        rows = tuple(
            (one.name or one.recipe, one.recipe, str(one.candidates), counted(one.kinds), counted(one.quota))
            for one in facts.info.strata
        )
        yield Table("Strata", ("stratum", "recipe", "candidates", "accepted", "asked for"), rows)


def _words(counts: dict[str, int]) -> dict[str, int]:
    return {reason.replace("_", " "): count for reason, count in counts.items()}


def _reasons(counts: dict[str, int]) -> Table:
    total = sum(counts.values())
    meanings = {str(reason): meaning for reason, meaning in MEANING.items()}
    rows = tuple(
        (reason.replace("_", " "), str(count), percent(count / total), meanings.get(reason, ""))
        for reason, count in counts.items()
    )
    return Table("Verdicts", ("verdict", "candidates", "share", "meaning"), rows)


def _feeders(facts: LibraryFacts, options: PlayOptions) -> Iterator[Section]:
    pictures, text = [], []
    known = {recipe.experiment.name: recipe for recipe in facts.contents.recipes.values()}
    for position, (name, recipe) in enumerate(known.items()):
        try:
            experiment = located_experiment(recipe, options.system)
            figure = plot_feeder(experiment)
        except MissingDataError:
            text.append(f"{name} is not drawn: no {FILE_NAME} (columns bus, x, y) lies beside its circuit.")
            continue
        except ScenarioLibError as error:
            text.append(f"{name} is not drawn: {error}")
            continue
        sites = ", ".join(f"{site.name} at bus {site.bus}" for site in experiment.sites)
        alt = (
            f"Map of feeder {name} with datacenters ({sites}), {len(experiment.pv_systems)} PV systems and "
            f"{len(experiment.loads)} time-varying loads."
        )
        pictures.append(Picture(f"feeder-{position}", figure, alt, f"{name}: {sites}."))
    if known:
        yield Section("Feeder", tuple(text), pictures=tuple(pictures))

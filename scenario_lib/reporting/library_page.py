"""The sections of a library's page that show all candidates: difficulty, control windows, what was drawn.

The page of one library.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from scenario_lib.analysis.draws import Draws, gap_by_chance, largest_gap
from scenario_lib.errors import MissingDataError, ScenarioLibError
from scenario_lib.feeders.circuit_files import FILE_NAME
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import located_experiment
from scenario_lib.plotting.candidates import plot_difficulty, plot_draws, plot_verdicts, plot_windows
from scenario_lib.plotting.feeder import plot_feeder
from scenario_lib.reporting.page import Page, Picture, Section, Table, counted, number, percent, percent_spread, spread
from scenario_lib.reporting.sections import (
    READING,
    LibraryFacts,
    PlayOptions,
    asked_records,
    library_facts,
    provenance_section,
    scenario_parts,
    telling_records,
    verdict_text,
)
from scenario_lib.screening.criteria import Reason


def _difficulty_section(facts: LibraryFacts) -> Iterator[Section]:
    """How much is to be fixed, and how much OFO fixes; nothing without violations."""
    columns = facts.columns
    if not np.any(columns.baseline_integral_pu_s > 0):
        return
    measured = np.isfinite(columns.recovery_frac) & (columns.baseline_integral_pu_s > 0)
    alt = (
        f"Scatter of {np.count_nonzero(measured)} candidates. Accepted ones have baseline integrals of "
        f"{spread(facts.accepted('baseline_integral_pu_s'), 'pu s')}, and recoveries of "
        f"{percent_spread(facts.accepted('recovery_frac'))}."
    )
    quiet = int(np.count_nonzero(columns.baseline_integral_pu_s == 0))
    caption = (
        "Right: more to fix. Up: OFO fixes more of it. Dotted: thresholds of the screening. Ticks at the bottom: "
        "candidates that the baseline alone ruled out, so OFO was not simulated; recoveries below -25% are drawn at "
        f"that edge. Not shown, because they have no violation: {quiet}."
    )
    figure = plot_difficulty(columns, facts.contents.screening)
    yield Section("Difficulty", pictures=(Picture("difficulty", figure, alt, caption),))


def _windows_section(facts: LibraryFacts) -> Iterator[Section]:
    """How long control windows are, and when; nothing without accepted scenarios."""
    if not np.any(facts.columns.accepted):
        return
    alt = f"Lengths of control windows: {spread(facts.accepted('window_length_s'), 's')}; and when they lie."
    caption = "Left: lengths of the control windows. Right: part of the scenarios whose window covers each second."
    picture = Picture("windows", plot_windows(facts.columns), alt, caption)
    yield Section("Control windows", pictures=(picture,))


def _draws_section(facts: LibraryFacts) -> Iterator[Section]:
    """Drawn parameters, accepted beside rejected; nothing where rejected candidates are not known."""
    draws = facts.draws
    if draws is None or not len(draws.accepted) or not draws.varying():
        return
    differing = list(_differing(draws))
    text = ["What the screening prefers shows where the two distributions differ."]
    if len(draws.accepted) + draws.changed < draws.total:
        text.append(f"Of {draws.total} candidates, {len(draws.accepted)} were drawn again, evenly spread.")
    if draws.changed:
        text.append(
            f"{draws.changed} candidates are left out: something else is drawn now than when they were screened."
        )
    alt = (
        f"Distributions of {len(draws.varying())} drawn parameters for {np.count_nonzero(draws.accepted)} accepted and "
        f"{np.count_nonzero(~draws.accepted)} rejected candidates. "
        + (f"More different than by chance: {', '.join(differing)}." if differing else "No gap is beyond chance.")
    )
    caption = (
        "Shares within each group. The gap is the largest distance between the two distribution functions "
        "(Kolmogorov-Smirnov); the number in brackets is exceeded by chance in one panel of twenty."
    )
    yield Section("What was drawn", tuple(text), pictures=(Picture("draws", plot_draws(draws), alt, caption),))


def _differing(draws: Draws) -> Iterator[str]:
    for name, values in draws.varying().items():
        known = np.isfinite(values)
        accepted, rejected = values[known & draws.accepted], values[known & ~draws.accepted]
        if len(accepted) and len(rejected):
            gap = largest_gap(accepted, rejected)
            if gap > gap_by_chance(len(accepted), len(rejected)):
                yield f"{name} (gap {number(gap)})"


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
        *_difficulty_section(facts),
        *_windows_section(facts),
        *_draws_section(facts),
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

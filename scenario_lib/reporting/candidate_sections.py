"""The sections of a library's page that show all candidates: difficulty, control windows, what was drawn."""

from collections.abc import Iterator

import numpy as np

from scenario_lib.plotting.candidates import plot_difficulty, plot_windows
from scenario_lib.plotting.draws import plot_draws
from scenario_lib.reporting.library_facts import LibraryFacts
from scenario_lib.reporting.page import Picture, Section
from scenario_lib.reporting.text import number, percent_spread, spread
from scenario_lib.screening.draws import Draws, gap_by_chance, largest_gap


def difficulty_section(facts: LibraryFacts) -> Iterator[Section]:
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


def windows_section(facts: LibraryFacts) -> Iterator[Section]:
    """How long control windows are, and when; nothing without accepted scenarios."""
    if not np.any(facts.columns.accepted):
        return
    alt = f"Lengths of control windows: {spread(facts.accepted('window_length_s'), 's')}; and when they lie."
    caption = "Left: lengths of the control windows. Right: part of the scenarios whose window covers each second."
    picture = Picture("windows", plot_windows(facts.columns), alt, caption)
    yield Section("Control windows", pictures=(picture,))


def draws_section(facts: LibraryFacts) -> Iterator[Section]:
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

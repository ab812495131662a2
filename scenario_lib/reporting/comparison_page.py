"""The page that shows several libraries, such as those of several nights, side by side."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from scenario_lib.errors import InvalidSettingError
from scenario_lib.plotting.comparison import plot_acceptance, plot_distributions
from scenario_lib.reporting.library_facts import LibraryFacts, library_facts
from scenario_lib.reporting.page import Page, Picture, Section, Table
from scenario_lib.reporting.provenance import verdict_text
from scenario_lib.reporting.text import counted, percent, percent_spread, spread
from scenario_lib.screening.readable import threshold_text

_Read = Callable[[LibraryFacts], str]

_CONTENTS: tuple[tuple[str, _Read], ...] = (
    ("feeders", lambda facts: ", ".join(facts.info.systems)),
    ("candidates", lambda facts: str(len(facts.columns)) if facts.has_table else "not known"),
    ("accepted", lambda facts: _accepted(facts)),
    ("kinds", lambda facts: counted(facts.kinds())),
    ("baseline integral", lambda facts: spread(facts.accepted("baseline_integral_pu_s"), "pu s")),
    ("recovery by OFO", lambda facts: percent_spread(facts.accepted("recovery_frac"))),
    ("control window", lambda facts: spread(facts.accepted("window_length_s"), "s")),
    ("files and draws", lambda facts: verdict_text(facts)),
)


def comparison_page(paths: Sequence[Path]) -> Page:
    """Acceptance, kinds, distributions and provenance of at least two libraries.

    Raises:
        InvalidSettingError: Fewer than two libraries.
        LibraryError: One is not a library, or damaged.
    """
    if len(paths) < 2:
        raise InvalidSettingError(f"{len(paths)} library to compare; expected at least two")
    libraries = {name: library_facts(path) for name, path in zip(short_names(paths), paths, strict=True)}
    shares = [_accepted(facts) for facts in libraries.values()]
    lead = "; ".join(f"{name}: {share} accepted" for name, share in zip(libraries, shares, strict=True)) + "."
    sections = (_contents(libraries), *_acceptance(libraries), *_distributions(libraries), _provenance(libraries))
    return Page("Scenario libraries side by side", lead, sections)


def short_names(paths: Sequence[Path]) -> list[str]:
    """The shortest endings of paths that tell them apart; a number for what is given twice."""
    # Names of files need not be text.
    parts = [[os.fsencode(part).decode(errors="replace") for part in path.resolve().parts] for path in paths]
    deepest = max(map(len, parts))
    for depth in range(1, deepest + 1):
        names = ["/".join(own[-depth:]) for own in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{own[-1]} ({position})" for position, own in enumerate(parts, start=1)]


def _accepted(facts: LibraryFacts) -> str:
    n = int(np.count_nonzero(facts.columns.accepted))
    return f"{n} ({percent(n / len(facts.columns))})" if facts.has_table and len(facts.columns) else str(n)


def _contents(libraries: Mapping[str, LibraryFacts]) -> Section:
    rows = tuple((what, *(read(facts) for facts in libraries.values())) for what, read in _CONTENTS)
    return Section("Contents", tables=(Table("What they hold", ("", *libraries), rows),))


def _acceptance(libraries: Mapping[str, LibraryFacts]) -> Iterator[Section]:
    columns = {name: facts.columns for name, facts in libraries.items() if facts.has_table and len(facts.columns)}
    if not columns:
        return
    alt = "Shares of candidates by verdict: " + "; ".join(
        f"{name} accepted {_accepted(facts)}" for name, facts in libraries.items()
    )
    caption = (
        "Share of each library's candidates by verdict; what was accepted comes first, by kind. Libraries without a "
        "candidates table are left out."
    )
    yield Section("Acceptance", pictures=(Picture("acceptance", plot_acceptance(columns), alt, caption),))


def _distributions(libraries: Mapping[str, LibraryFacts]) -> Iterator[Section]:
    columns = {name: facts.columns for name, facts in libraries.items()}
    if not any(np.any(one.accepted) for one in columns.values()):
        return
    alt = "Distribution functions of baseline integral, recovery and control window: " + "; ".join(
        f"{name}: recovery {percent_spread(facts.accepted('recovery_frac'))}" for name, facts in libraries.items()
    )
    caption = "Share of each library's scenarios at or below a value. Lines on top of each other: equal libraries."
    picture = Picture("distributions", plot_distributions(columns), alt, caption)
    yield Section("Distributions", pictures=(picture,))


def _provenance(libraries: Mapping[str, LibraryFacts]) -> Section:
    origins = {name: _origin(facts) for name, facts in libraries.items()}
    keys = dict.fromkeys(key for origin in origins.values() for key in origin)
    rows = []
    for key in keys:
        values = [origin.get(key) for origin in origins.values()]
        differs = len({value for value in values if value is not None}) > 1
        rows.append((f"{key} (differs)" if differs else key, *(value or "not stated" for value in values)))
    text = ("Rows in which libraries differ say so.",)
    return Section("Provenance", text, (Table("Where they come from", ("", *libraries), tuple(rows)),))


def _origin(facts: LibraryFacts) -> dict[str, str]:
    """What a library states of itself; what it does not state is left out."""
    contents = facts.contents
    engines = sorted({record.proof.engine for record in contents.records if record.proof})
    return {
        **({"recipes": ", ".join(contents.recipes), "engines": ", ".join(engines)} if contents.digests else {}),
        **{f"built with {name}": version for name, version in contents.versions.items()},
        **{f"screening {name}": threshold_text(value) for name, value in contents.screening.items()},
        **{f"{name} (SHA-256)": f"{digest[:12]}…" for name, digest in contents.digests.items()},
    }

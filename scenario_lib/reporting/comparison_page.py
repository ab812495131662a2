"""The tables that `scenario-lib evaluate --out` wrote, read without any learning code.

The page of an evaluation: controls side by side over the same scenarios.

The page that shows several libraries, such as those of several nights, side by side.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scenario_lib._arrays import Floats
from scenario_lib._files import open_regular
from scenario_lib.analysis.info import threshold_text
from scenario_lib.errors import DataFileError, InvalidSettingError, MissingDataError
from scenario_lib.plotting.comparison import (
    plot_acceptance,
    plot_distributions,
    plot_scenario_integrals,
    plot_spreads,
    plot_trade_off,
)
from scenario_lib.reporting.page import (
    DASH,
    Page,
    Picture,
    Section,
    Table,
    counted,
    number,
    percent,
    percent_spread,
    spread,
)
from scenario_lib.reporting.sections import LibraryFacts, library_facts, verdict_text

SCENARIOS, SUMMARY = "scenarios.parquet", "summary.parquet"

_SPREADS = {
    "violation_time_s": "time outside the limits (s)",
    "throughput_relative": "throughput, of the largest batches",
    "itl_p99_over_deadline": "99th percentile of latency, of the deadline",
    "batch_changes": "changes of batch sizes",
}
"""Figures whose spread over scenarios is shown, and what they are called."""

_SCENARIO_COLUMNS = ("index", "seed", "kind", "control", "integral_pu_s", *_SPREADS, "failure")
_SUMMARY_COLUMNS = (
    "control",
    "scenarios",
    "failed",
    "integral_pu_s",
    "removed_frac",
    "violation_time_s",
    "worst_v_min_pu",
    "worst_v_max_pu",
    "throughput_relative",
    "itl_p99_s",
    "itl_p99_over_deadline",
    "mean_power_kw",
    "batch_changes",
)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The two tables of an evaluation as rows of plain values.

    Figures of several feeders are never put together: `of_feeder` has the rows of one.
    """

    scenarios: list[dict[str, Any]]
    summary: list[dict[str, Any]]

    @property
    def feeders(self) -> list[str]:
        """Names of the feeders; one without a name where the tables are older than that column."""
        return list(dict.fromkeys(row.get("feeder", "") for row in self.summary))

    def of_feeder(self, feeder: str) -> "Evaluation":
        """The rows of one feeder."""
        own = ([row for row in rows if row.get("feeder", "") == feeder] for rows in (self.scenarios, self.summary))
        return Evaluation(*own)

    @property
    def controls(self) -> list[str]:
        """Names of the controls, in the order asked for."""
        return list(dict.fromkeys(row["control"] for row in self.summary))

    def by_control(self, column: str) -> dict[str, Floats]:
        """One column, by control, scenario by scenario; NaN where a rollout failed."""
        return {
            control: np.array(
                [np.nan if row[column] is None else row[column] for row in self.scenarios if row["control"] == control],
                float,
            )
            for control in self.controls
        }


def read_evaluation(folder: Path) -> Evaluation:
    """The tables of an evaluation.

    Raises:
        MissingDataError: A table is not there.
        DataFileError: One is not what `evaluate` writes, or has no row.
    """
    return Evaluation(_rows(folder / SCENARIOS, _SCENARIO_COLUMNS), _rows(folder / SUMMARY, _SUMMARY_COLUMNS))


def _rows(path: Path, columns: Sequence[str]) -> list[dict[str, Any]]:
    if not path.is_file():
        raise MissingDataError(f"{path}: no such file; give the directory that 'scenario-lib evaluate --out' wrote")
    try:
        with open_regular(path) as stream:
            rows: list[dict[str, Any]] = pq.read_table(
                stream, columns=[*columns, "feeder"], use_threads=False
            ).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise DataFileError(f"{path}: cannot be read ({error}); evaluate again") from None
    missing = [name for name in columns if not rows or name not in rows[0]]
    if missing:
        raise DataFileError(f"{path}: {'no rows' if not rows else f'lacks {missing}'}; expected what 'evaluate' writes")
    return rows


_MS_PER_S, _KW_PER_MW = 1e3, 1e3
_HEAD = (
    *("control", "integral", "removed", "outside", "lowest", "highest"),
    *("throughput", "p99 latency", "of deadline", "power", "changes"),
)


def evaluation_page(folder: Path) -> Page:
    """Controls side by side: means, trade-off, every scenario, spreads, failures.

    Raises:
        MissingDataError, DataFileError: As from `read_evaluation`.
    """
    evaluation = read_evaluation(folder)
    parts = {_named(feeder, evaluation): evaluation.of_feeder(feeder) for feeder in evaluation.feeders}
    lead = "; ".join(f"{name}{_lead(part)}" for name, part in parts.items())
    sections = [section for name, part in parts.items() for section in _feeder_sections(name, part)]
    return Page("Evaluation of control policies", lead + ".", (*sections, *_failures(evaluation)))


def _named(feeder: str, evaluation: Evaluation) -> str:
    return f"{feeder}: " if len(evaluation.feeders) > 1 else ""


def _lead(evaluation: Evaluation) -> str:
    n = evaluation.summary[0]["scenarios"]
    best = max(evaluation.summary, key=lambda row: -np.inf if row["removed_frac"] is None else row["removed_frac"])
    lead = f"{', '.join(evaluation.controls)} over the same {n} scenarios"
    if best["removed_frac"] is None:
        return lead
    return f"{lead}; {best['control']} removes most of the violation, {percent(best['removed_frac'])}"


def _feeder_sections(name: str, evaluation: Evaluation) -> Iterator[Section]:
    """The sections of one feeder; where there are several, titles and names of pictures begin with its name."""
    for make in (_means, _trade_off, _every_scenario, _spreads):
        section = make(evaluation)
        pictures = tuple(replace(picture, name=_file_name(name + picture.name)) for picture in section.pictures)
        title = f"{name}{section.title}"
        yield replace(section, title=title, pictures=pictures)


def _file_name(text: str) -> str:
    return re.sub("[^A-Za-z0-9]+", "-", text)


def _means(evaluation: Evaluation) -> Section:
    rows = tuple(
        (
            row["control"],
            number(row["integral_pu_s"], "pu s"),
            percent(row["removed_frac"]),
            number(row["violation_time_s"], "s"),
            _voltage(row["worst_v_min_pu"]),
            _voltage(row["worst_v_max_pu"]),
            percent(row["throughput_relative"]),
            number(_scaled(row["itl_p99_s"], _MS_PER_S), "ms"),
            percent(row["itl_p99_over_deadline"]),
            number(_scaled(row["mean_power_kw"], 1 / _KW_PER_MW), "MW"),
            number(row["batch_changes"]),
        )
        for row in evaluation.summary
    )
    text = ("Means over the scenarios that all controls played to the end; lowest and highest voltage over all.",)
    return Section("Controls", text, (Table("Means", _HEAD, rows),))


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _voltage(value: float | None) -> str:
    return DASH if value is None else f"{value:.4f} pu"


def _trade_off(evaluation: Evaluation) -> Section:
    removed, throughput = (
        {row["control"]: np.nan if row[name] is None else row[name] for row in evaluation.summary}
        for name in ("removed_frac", "throughput_relative")
    )
    alt = "Violation removed against throughput: " + "; ".join(
        f"{name} {percent(removed[name])} at {percent(throughput[name])}" for name in removed
    )
    caption = "Up: safer voltages. Right: more tokens. Removed is relative to no control, if that was evaluated."
    return Section(
        "Safety against throughput", pictures=(Picture("trade-off", plot_trade_off(removed, throughput), alt, caption),)
    )


def _every_scenario(evaluation: Evaluation) -> Section:
    integrals = evaluation.by_control("integral_pu_s")
    first = evaluation.controls[0]
    rows = [row for row in evaluation.scenarios if row["control"] == first]
    labels = [f"{row['seed']} {row['kind']}" for row in rows]
    alt = f"Integral violation of {len(labels)} scenarios under {', '.join(integrals)}."
    caption = (
        f"Scenarios by their violation under {first}; the lower a marker, the better. The scale is linear near zero "
        f"and logarithmic above."
    )
    picture = Picture("integrals", plot_scenario_integrals(integrals, labels), alt, caption)
    table_rows = tuple(
        (label, *(number(values[position], "pu s") for values in integrals.values()))
        for position, label in enumerate(labels)
    )
    table = Table("Integral violation of every scenario", ("seed and kind", *integrals), table_rows, folded=True)
    return Section("Every scenario", tables=(table,), pictures=(picture,))


def _spreads(evaluation: Evaluation) -> Section:
    figures = {title: evaluation.by_control(column) for column, title in _SPREADS.items()}
    alt = "Boxes of four figures by control: " + "; ".join(
        f"{title}, medians "
        + ", ".join(f"{control} {number(_median(values))}" for control, values in of_control.items())
        for title, of_control in figures.items()
    )
    caption = "Box: quartiles and median over the scenarios; whiskers: within 1.5 box lengths; dots: every scenario."
    return Section("Spreads", pictures=(Picture("spreads", plot_spreads(figures), alt, caption),))


def _median(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else float("nan")


def _failures(evaluation: Evaluation) -> list[Section]:
    rows = tuple(
        (str(row["seed"]), row["control"], row["failure"]) for row in evaluation.scenarios if row["failure"] is not None
    )
    if not rows:
        return []
    text = ("Their scenarios are left out of all means.",)
    return [Section("Failed rollouts", text, (Table("Failures", ("seed", "control", "what happened"), rows),))]


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
    engines = sorted({record.digests.engine for record in contents.records if record.digests})
    return {
        **({"recipes": ", ".join(contents.recipes), "engines": ", ".join(engines)} if contents.digests else {}),
        **{f"built with {name}": version for name, version in contents.versions.items()},
        **{f"screening {name}": threshold_text(value) for name, value in contents.screening.items()},
        **{f"{name} (SHA-256)": f"{digest[:12]}…" for name, digest in contents.digests.items()},
    }

"""The page of an evaluation: controls side by side over the same scenarios."""

from pathlib import Path

import numpy as np

from scenario_lib.plotting.evaluation import plot_scenario_integrals, plot_spreads, plot_trade_off
from scenario_lib.reporting.evaluation_tables import SPREADS, Evaluation, read_evaluation
from scenario_lib.reporting.page import Page, Picture, Section, Table
from scenario_lib.reporting.text import DASH, number, percent
from scenario_lib.scenario.curves import Array

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
    n = evaluation.summary[0]["scenarios"]
    best = max(evaluation.summary, key=lambda row: -np.inf if row["removed_frac"] is None else row["removed_frac"])
    lead = f"{', '.join(evaluation.controls)} over the same {n} scenarios"
    if best["removed_frac"] is not None:
        lead += f"; {best['control']} removes most of the violation, {percent(best['removed_frac'])}"
    sections = [_means(evaluation), _trade_off(evaluation), _every_scenario(evaluation), _spreads(evaluation)]
    failures = _failures(evaluation)
    return Page("Evaluation of control policies", lead + ".", (*sections, *failures))


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
    figures = {title: evaluation.by_control(column) for column, title in SPREADS.items()}
    alt = "Boxes of four figures by control: " + "; ".join(
        f"{title}, medians "
        + ", ".join(f"{control} {number(_median(values))}" for control, values in of_control.items())
        for title, of_control in figures.items()
    )
    caption = "Box: quartiles and median over the scenarios; whiskers: within 1.5 box lengths; dots: every scenario."
    return Section("Spreads", pictures=(Picture("spreads", plot_spreads(figures), alt, caption),))


def _median(values: Array) -> float:
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

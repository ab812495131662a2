"""What a rollout is compared by: voltages, service, power and wear, as one row of figures.

Figures of many rollouts side by side: per scenario, on average over the scenarios of a feeder, as text and as Parquet.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scenario_lib._arrays import Floats
from scenario_lib._files import replacing
from scenario_lib.errors import MissingDataError
from scenario_lib.feeders.experiment import Experiment
from scenario_lib.learning.paired import PairedDifference, paired_difference, paired_lines
from scenario_lib.metrics.voltage import measure_voltages
from scenario_lib.simulation.assets import Assets, replica_tokens_per_s
from scenario_lib.simulation.rollout import Rollout

_W_PER_KW = 1e3


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one rollout, over all its seconds, sites and models.

    Attributes:
        integral_pu_s: Sum over time and bus-phases of the distance outside the limits (pu s).
        violation_time_s: Seconds with any bus-phase outside.
        worst_v_min_pu, worst_v_max_pu: Lowest and highest voltage.
        throughput_tokens_per_s: Mean output of all replicas (1/s), by the logistic throughput fits.
        throughput_relative: The same, relative to the same replicas at their largest feasible batches.
        itl_p99_s: 99th percentile of the inter-token latency (s) over seconds and models; None if nothing ran.
        itl_p99_over_deadline: The same of the latency relative to its model's deadline.
        mean_power_kw: Mean power of all sites and phases (kW).
        batch_changes: How often a model's batch changed.
    """

    integral_pu_s: float
    violation_time_s: float
    worst_v_min_pu: float
    worst_v_max_pu: float
    throughput_tokens_per_s: float
    throughput_relative: float
    itl_p99_s: float | None
    itl_p99_over_deadline: float | None
    mean_power_kw: float
    batch_changes: int


def figures_of(rollout: Rollout, experiment: Experiment, assets: Assets) -> Figures:
    """The figures of a rollout on an experiment's feeder."""
    band = experiment.limits
    voltages = asdict(measure_voltages(rollout.voltages_pu, band.v_min_pu, band.v_max_pu))
    specs = [experiment.spec(label) for _, label in rollout.model_labels]
    deadlines = np.array([spec.itl_deadline_s for spec in specs])
    largest = np.broadcast_to([max(spec.feasible_batch_sizes) for spec in specs], rollout.batch_sizes.shape)
    tokens = _mean_tokens_per_s(rollout, rollout.batch_sizes, assets)
    most_tokens = _mean_tokens_per_s(rollout, largest, assets)
    return Figures(
        integral_pu_s=voltages["integral_pu_s"],
        violation_time_s=voltages["violation_time_s"],
        worst_v_min_pu=voltages["worst_v_min_pu"],
        worst_v_max_pu=voltages["worst_v_max_pu"],
        throughput_tokens_per_s=tokens,
        throughput_relative=tokens / most_tokens if most_tokens > 0 else 0.0,
        itl_p99_s=_p99(rollout.itl_s),
        itl_p99_over_deadline=_p99(rollout.itl_s / deadlines),
        mean_power_kw=float(np.mean(np.sum(rollout.power_w, axis=(1, 2)))) / _W_PER_KW,
        batch_changes=int(np.count_nonzero(np.diff(rollout.batch_sizes, axis=0))),
    )


def _mean_tokens_per_s(rollout: Rollout, batch_sizes: NDArray[np.int64], assets: Assets) -> float:
    """Mean over time of the output of all replicas, were they at these batch sizes, shape (T, M)."""
    total = 0.0
    for column, (_, label) in enumerate(rollout.model_labels):
        of_replica = replica_tokens_per_s(assets.logistic, label, batch_sizes[:, column])
        total += float(np.mean(of_replica * rollout.active_replicas[:, column]))
    return total


def _p99(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.quantile(known, 0.99)) if known.size else None


SCENARIOS = "scenarios.parquet"
SUMMARY = "summary.parquet"
_PAIRED = "paired.parquet"
_TABLE = "table.txt"


@dataclass(frozen=True, slots=True)
class ScenarioFigures:
    """One scenario under one control.

    Attributes:
        index, seed, kind: Of the record.
        control: Name of the control.
        figures: None where the rollout failed; `failure` says why.
        feeder: Of the record's recipe.
    """

    index: int
    seed: int
    kind: str
    control: str
    figures: Figures | None
    failure: str | None
    feeder: str = ""

    def to_row(self) -> dict[str, Any]:
        """The row of the scenarios table."""
        names = [field.name for field in fields(Figures)]
        values = dict.fromkeys(names) if self.figures is None else asdict(self.figures)
        return {
            "index": self.index,
            "seed": self.seed,
            "kind": self.kind,
            "control": self.control,
            **values,
            "failure": self.failure,
            "feeder": self.feeder,
        }


@dataclass(frozen=True, slots=True)
class ControlSummary:
    """One control over the scenarios of one feeder that all controls played to the end.

    Attributes:
        scenarios: Their number.
        removed_frac: Part of the integral violation without control that this control removes; None without the
            control "none", or without any violation.
        worst_v_min_pu, worst_v_max_pu: Over all scenarios; the other figures are means over scenarios.
    """

    feeder: str
    control: str
    scenarios: int
    failed: int
    integral_pu_s: float | None
    removed_frac: float | None
    violation_time_s: float | None
    worst_v_min_pu: float | None
    worst_v_max_pu: float | None
    throughput_tokens_per_s: float | None
    throughput_relative: float | None
    itl_p99_s: float | None
    itl_p99_over_deadline: float | None
    mean_power_kw: float | None
    batch_changes: float | None


_UNCONTROLLED = "none"
_REFERENCE = "ofo"
_MEANINGS = {
    "rule-based": "every site acts on the worst voltage of the whole feeder, openg2g's default",
    "rule-based-zonal": "every site acts on the worst voltage of its own zone; without zones, as rule-based",
}
_ARROW_TYPES: dict[object, pa.DataType] = {int: pa.int64(), str: pa.string()}
_SUMMARY_SCHEMA, _PAIRED_SCHEMA = (
    pa.schema([(field.name, _ARROW_TYPES.get(field.type, pa.float64())) for field in fields(row)])
    for row in (ControlSummary, PairedDifference)
)
_SCENARIO_SCHEMA = pa.schema(
    [
        ("index", pa.int64()),
        ("seed", pa.int64()),
        ("kind", pa.string()),
        ("control", pa.string()),
        *((field.name, pa.int64() if field.type is int else pa.float64()) for field in fields(Figures)),
        ("failure", pa.string()),
        ("feeder", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Result of an evaluation.

    Attributes:
        controls: Their names, in the order asked for.
        scenarios: Per scenario and control, scenario by scenario.
        warnings: What should be known before the figures are believed.
        notes: What else is to be known of the controls.
    """

    controls: tuple[str, ...]
    scenarios: tuple[ScenarioFigures, ...]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.controls)}: {len(self.scenarios)} rollouts, {len(self.warnings)} warnings)"

    @property
    def failed(self) -> tuple[ScenarioFigures, ...]:
        """Rollouts without figures."""
        return tuple(entry for entry in self.scenarios if entry.figures is None)

    @property
    def feeders(self) -> tuple[str, ...]:
        """Feeders of the scenarios, in the order in which they come."""
        return tuple(dict.fromkeys(entry.feeder for entry in self.scenarios))

    def of_feeder(self, feeder: str) -> "Comparison":
        """The same of the scenarios of one feeder."""
        return replace(self, scenarios=tuple(entry for entry in self.scenarios if entry.feeder == feeder))

    def summaries(self) -> tuple[ControlSummary, ...]:
        """One summary a feeder and control: figures of different feeders have no common mean."""
        return tuple(chain.from_iterable(self.of_feeder(feeder)._of_controls(feeder) for feeder in self.feeders))

    def paired(self) -> tuple[PairedDifference, ...]:
        """Every other control less OFO, a feeder at a time: over all its scenarios, then by kind; empty without OFO."""
        if _REFERENCE not in self.controls:
            return ()
        return tuple(chain.from_iterable(self.of_feeder(feeder)._paired(feeder) for feeder in self.feeders))

    def _paired(self, feeder: str) -> Iterator[PairedDifference]:
        kinds = tuple(dict.fromkeys(entry.kind for entry in self.scenarios))
        parts = {"all": self, **{kind: self._of_kind(kind) for kind in (kinds if len(kinds) > 1 else ())}}
        for control in self.controls:
            for kind, part in parts.items():
                broken = {entry.index for entry in part.failed}
                own, ofo = (
                    [figures.integral_pu_s for figures in part._figures(name, broken)] for name in (control, _REFERENCE)
                )
                if control != _REFERENCE and own:
                    yield paired_difference(feeder, kind, control, own, ofo)

    def _of_kind(self, kind: str) -> "Comparison":
        return replace(self, scenarios=tuple(entry for entry in self.scenarios if entry.kind == kind))

    def _of_controls(self, feeder: str) -> Iterator[ControlSummary]:
        broken = {entry.index for entry in self.failed}
        uncontrolled = self._figures(_UNCONTROLLED, broken)
        for control in self.controls:
            failed = sum(entry.control == control for entry in self.failed)
            yield _summary(feeder, control, failed, self._figures(control, broken), uncontrolled)

    def _figures(self, control: str, broken: set[int]) -> list[Figures]:
        entries = (entry for entry in self.scenarios if entry.control == control and entry.index not in broken)
        return [entry.figures for entry in entries if entry.figures is not None]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "warnings": list(self.warnings),
            "meanings": self.meanings(),
            "summary": [asdict(summary) for summary in self.summaries()],
            "paired": [asdict(difference) for difference in self.paired()],
            "scenarios": [entry.to_row() for entry in self.scenarios],
        }

    def lines(self) -> list[str]:
        """The summary and the integral violations per scenario as text."""
        lines = [f"warning: {warning}" for warning in self.warnings]
        parts = {_named(feeder, self.feeders): self.of_feeder(feeder) for feeder in self.feeders}
        for name, part in parts.items():
            lines += _summary_lines(name, part.summaries())
        lines += self.meanings()
        for name, part in parts.items():
            differences = paired_lines(name, part.paired())
            lines += ["", *differences] if differences else []
        for name, part in parts.items():
            lines += ["", *part._scenario_lines(name)]
        return lines + [f"failed: seed {entry.seed} under {entry.control}: {entry.failure}" for entry in self.failed]

    def meanings(self) -> list[str]:
        """What controls do whose names leave it open."""
        named = [f"{control}: {_MEANINGS[control]}" for control in self.controls if control in _MEANINGS]
        return [*named, *self.notes]

    def _scenario_lines(self, name: str) -> list[str]:
        widths = [max(9, len(control) + 2) for control in self.controls]
        cells = "".join(f"{control:>{width}}" for control, width in zip(self.controls, widths, strict=True))
        lines = [f"{name}integral violation (pu s) per scenario", f"{'seed':>10}  {'kind':5}{cells}"]
        n = len(self.controls)
        for first in range(0, len(self.scenarios), n):
            row = self.scenarios[first : first + n]
            values = [_text(None if entry.figures is None else entry.figures.integral_pu_s, "{:.3g}") for entry in row]
            cells = "".join(f"{value:>{width}}" for value, width in zip(values, widths, strict=True))
            lines.append(f"{row[0].seed:>10}  {row[0].kind:5}{cells}")
        return lines


def write_comparison(folder: Path, comparison: Comparison) -> None:
    """Write the tables as Parquet and the readable one as text into a directory, which is made if need be.

    Raises:
        MissingDataError: The directory cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MissingDataError(f"{folder}: cannot be made ({error.strerror}); choose another --out") from None
    rows = [entry.to_row() for entry in comparison.scenarios]
    summaries = [asdict(summary) for summary in comparison.summaries()]
    paired = [asdict(difference) for difference in comparison.paired()]
    for name, table in (
        (SCENARIOS, pa.Table.from_pylist(rows, _SCENARIO_SCHEMA)),
        (SUMMARY, pa.Table.from_pylist(summaries, _SUMMARY_SCHEMA)),
        (_PAIRED, pa.Table.from_pylist(paired, _PAIRED_SCHEMA)),
    ):
        with replacing(folder / name) as stream:
            pq.write_table(table, stream)
    with replacing(folder / _TABLE) as stream:
        stream.write(("\n".join(comparison.lines()) + "\n").encode())


def _summary(
    feeder: str, control: str, failed: int, figures: Sequence[Figures], uncontrolled: Sequence[Figures]
) -> ControlSummary:
    before = sum(entry.integral_pu_s for entry in uncontrolled)
    after = sum(entry.integral_pu_s for entry in figures)
    return ControlSummary(
        feeder=feeder,
        control=control,
        scenarios=len(figures),
        failed=failed,
        integral_pu_s=_mean(figures, "integral_pu_s"),
        removed_frac=(before - after) / before if before > 0 else None,
        violation_time_s=_mean(figures, "violation_time_s"),
        worst_v_min_pu=min((entry.worst_v_min_pu for entry in figures), default=None),
        worst_v_max_pu=max((entry.worst_v_max_pu for entry in figures), default=None),
        throughput_tokens_per_s=_mean(figures, "throughput_tokens_per_s"),
        throughput_relative=_mean(figures, "throughput_relative"),
        itl_p99_s=_mean(figures, "itl_p99_s"),
        itl_p99_over_deadline=_mean(figures, "itl_p99_over_deadline"),
        mean_power_kw=_mean(figures, "mean_power_kw"),
        batch_changes=_mean(figures, "batch_changes"),
    )


def _mean(figures: Sequence[Figures], name: str) -> float | None:
    values = [getattr(entry, name) for entry in figures]
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


_COLUMNS = (
    ("integral", "pu s", "integral_pu_s", "{:.3f}"),
    ("removed", "", "removed_frac", "{:.1%}"),
    ("violation", "s", "violation_time_s", "{:.0f}"),
    ("lowest", "pu", "worst_v_min_pu", "{:.4f}"),
    ("highest", "pu", "worst_v_max_pu", "{:.4f}"),
    ("tokens", "M/s", "throughput_tokens_per_s", "{:.3f}"),
    ("of most", "", "throughput_relative", "{:.1%}"),
    ("p99 ITL", "ms", "itl_p99_s", "{:.1f}"),
    ("/deadline", "", "itl_p99_over_deadline", "{:.2f}"),
    ("power", "MW", "mean_power_kw", "{:.3f}"),
    ("changes", "", "batch_changes", "{:.0f}"),
)
_SCALES = {"throughput_tokens_per_s": 1e-6, "itl_p99_s": 1e3, "mean_power_kw": 1e-3}


def _named(feeder: str, feeders: Sequence[str]) -> str:
    """How lines about one feeder begin; where there is but one, nothing is said."""
    return f"{feeder}: " if len(feeders) > 1 else ""


def _summary_lines(name: str, summaries: Sequence[ControlSummary]) -> list[str]:
    width = max(12, *(len(summary.control) + 2 for summary in summaries))
    head = f"{'control':{width}}" + "".join(f"{title:>11}" for title, *_ in _COLUMNS)
    units = " " * width + "".join(f"{unit:>11}" for _, unit, *_ in _COLUMNS)
    rows = [f"{name}means over {summaries[0].scenarios} scenarios; lowest and highest voltages over all", head, units]
    for summary in summaries:
        cells = [_text(getattr(summary, name), form, _SCALES.get(name, 1.0)) for *_, name, form in _COLUMNS]
        rows.append(f"{summary.control:{width}}" + "".join(f"{cell:>11}" for cell in cells))
    return rows


def _text(value: float | None, form: str, scale: float = 1.0) -> str:
    return "-" if value is None else form.format(value * scale)

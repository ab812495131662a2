"""One accepted scenario of a library: its seed, what screening found, and the digests that prove a replay.

The entries of a library's metadata, of which a record is made, are checked before.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from scenario_lib._arrays import Floats
from scenario_lib._html_table import html_table
from scenario_lib._values import STRICT, refuse, require_count, require_finite
from scenario_lib.errors import InvalidSettingError, LibraryError
from scenario_lib.feeders.experiment import DURATION_S
from scenario_lib.library.npz_store import TraceFile, TraceSource
from scenario_lib.library.recipe import Recipe
from scenario_lib.scenario.model import Scenario


@dataclass(frozen=True, slots=True)
class RecordFields:
    """The fields of a record that openg2g's example reads and writes; exactly these, under these names.

    Attributes:
        training_overlay: The drawn training job, or None.
        baseline_integral, ofo_integral: Integral violation (pu s) without control, and under OFO.
        recovery_frac: Part of the baseline's integral that OFO removes.
        t_control_start, t_control_end: The window that matters (s).
        bl_undervoltage_time_s, bl_overvoltage_time_s: Seconds of the baseline with any bus-phase below, above.
        randomize_ramps to ramp_dur_max: Kept as found; not applied.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    seed: int
    pv_scale: float
    load_scale: float
    training_overlay: dict[str, float] | None
    baseline_integral: float
    ofo_integral: float
    baseline_violation_time_s: float
    ofo_violation_time_s: float
    recovery_frac: float
    t_control_start: int
    t_control_end: int
    bl_undervoltage_time_s: float
    bl_overvoltage_time_s: float
    randomize_ramps: bool | None = None
    ramp_frac_min: float | None = None
    ramp_frac_max: float | None = None
    ramp_start_min: float | None = None
    ramp_start_max: float | None = None
    ramp_dur_min: float | None = None
    ramp_dur_max: float | None = None


CONTRACT_FIELDS = tuple(field.name for field in fields(RecordFields))


@dataclass(frozen=True, slots=True)
class RecordDigests:
    """Digests of a record and its recipe, which our libraries hold beyond the contract.

    Attributes:
        recipe: Identifier of the recipe that the record was drawn and screened with.
        engine: Engine that screened it.
        scenario_digest: SHA-256 of the drawn scenario.
        baseline_digest, ofo_digest: SHA-256 of the two penalty traces.
        inputs_digest: SHA-256 of what its rollouts read; see `inputs.py`.
    """

    __pydantic_config__: ClassVar[dict[str, object]] = STRICT

    recipe: str
    engine: str
    scenario_digest: str
    baseline_digest: str
    ofo_digest: str
    inputs_digest: str


@dataclass(frozen=True, slots=True, repr=False)
class ScenarioRecord(RecordFields):
    """A record as a library hands it out.

    Attributes:
        index: Position in the library.
        digests: With the recipe; None in a library without them.
        traces: Where the penalty traces are read from.
    """

    index: int = 0
    digests: RecordDigests | None = None
    traces: TraceSource | None = None

    @property
    def kind(self) -> str:
        """The limit that the baseline breaks: "under", "over" or "mixed"."""
        return violation_kind(self.bl_undervoltage_time_s, self.bl_overvoltage_time_s)

    @property
    def ofo_voltage_pen_per_step(self) -> Floats:
        """OFO's penalty (pu^2) at every second, shape (T,); read from disk when asked for."""
        return self._trace("ofo", None if self.digests is None else self.digests.ofo_digest)

    @property
    def baseline_voltage_pen_per_step(self) -> Floats:
        """The baseline's penalty (pu^2) at every second, shape (T,); read from disk when asked for."""
        return self._trace("baseline", None if self.digests is None else self.digests.baseline_digest)

    def contract(self) -> dict[str, Any]:
        """The fields that openg2g's example knows, as plain values."""
        return {name: getattr(self, name) for name in CONTRACT_FIELDS}

    def _trace(self, which: str, digest: str | None) -> Floats:
        if self.traces is None:
            raise LookupError("this record does not belong to a library on disk, so it has no traces")
        return self.traces.read(f"{which}_{self.index}", digest)

    def __repr__(self) -> str:
        window = f"{self.t_control_start}-{self.t_control_end} s"
        return (
            f"ScenarioRecord(seed={self.seed}, {self.kind}, baseline {self.baseline_integral:.3g} pu s, "
            f"recovery {self.recovery_frac:.0%}, window {window})"
        )

    def _repr_html_(self) -> str:
        """The record as a table in a notebook."""
        facts = {
            "kind": self.kind,
            "integral violation": f"{self.baseline_integral:.3g} pu s, under OFO {self.ofo_integral:.3g} pu s",
            "recovery by OFO": f"{self.recovery_frac:.0%}",
            "control window": f"{self.t_control_start} to {self.t_control_end} s",
            "PV scale, load scale": f"{self.pv_scale:.3f}, {self.load_scale:.3f}",
            "training overlay": "no" if self.training_overlay is None else "yes",
            "recipe": "not stated" if self.digests is None else self.digests.recipe,
        }
        return html_table(f"Scenario record, seed {self.seed}", facts)


def digests_of(record: ScenarioRecord) -> RecordDigests:
    """The digests of a record of ours.

    Raises:
        LibraryError: It has none.
    """
    if record.digests is None:
        raise LibraryError(f"the record of seed {record.seed} has no digests")
    return record.digests


def violation_kind(undervoltage_time_s: float, overvoltage_time_s: float) -> str:
    """ "over" if only the upper limit is broken, "mixed" if both are, "under" otherwise."""
    if overvoltage_time_s <= 0:
        return "under"
    return "mixed" if undervoltage_time_s > 0 else "over"


FIGURES = CONTRACT_FIELDS[1:3] + CONTRACT_FIELDS[4:9] + CONTRACT_FIELDS[11:13]


def parse_records(
    metadata: dict[str, Any], recipes: dict[str, Recipe], traces: TraceFile, source: str
) -> tuple[ScenarioRecord, ...]:
    """The records of a library.

    Raises:
        LibraryError: An entry is not what it should be; the message names the source, the entry and the field.
        KeyError, TypeError, ValueError: There are no lists of entries, or not equally many.
    """
    entries = metadata["scenarios"]
    proofs = metadata["proofs"] if recipes.keys() != {""} else [None] * len(entries)
    if not isinstance(entries, list) or not isinstance(proofs, list):
        raise TypeError("scenarios and proofs: expected lists")
    seen: set[tuple[str, int]] = set()
    records = []
    for index, (entry, own) in enumerate(zip(entries, proofs, strict=True)):
        place = f"{source}: scenarios[{index}]"
        check_entry(entry, place)
        parsed = None if own is None else _parse_digests(own, f"{source}: proofs[{index}]")
        if parsed is not None:
            if parsed.recipe not in recipes:
                raise LibraryError(f"{place} names recipe {parsed.recipe!r}, which is not there")
            if (parsed.recipe, entry["seed"]) in seen:
                raise LibraryError(f"{place}: seed {entry['seed']} is there twice")
            seen.add((parsed.recipe, entry["seed"]))
        records.append(ScenarioRecord(**entry, index=index, digests=parsed, traces=traces))
    return tuple(records)


def _parse_digests(own: dict[str, Any], place: str) -> RecordDigests:
    parsed = RecordDigests(**own)
    for name, value in own.items():
        if not isinstance(value, str):
            raise LibraryError(f"{place}: {name} is {value!r}; expected a text")
    return parsed


def check_entry(entry: Any, place: str) -> None:
    """Refuse fields of a record that make no sense.

    Raises:
        LibraryError: Naming the place and the field.
    """
    if not isinstance(entry, dict):
        raise LibraryError(f"{place}: is {entry!r}; expected the fields of a record")
    if entry.keys() != set(CONTRACT_FIELDS):
        odd = ", ".join(sorted(set(entry) ^ set(CONTRACT_FIELDS)))
        raise LibraryError(f"{place}: fields missing or not known: {odd}")
    try:
        _check_values(entry)
    except InvalidSettingError as error:
        raise LibraryError(f"{place}: {error}") from None


def _check_values(entry: dict[str, Any]) -> None:
    require_count("seed", entry["seed"], 0)
    for name in FIGURES:
        require_finite(name, entry[name])
    start, end = entry["t_control_start"], entry["t_control_end"]
    require_count("t_control_start", start, 0)
    require_count("t_control_end", end, 0)
    if not start < end <= DURATION_S:
        raise refuse("control window", f"{start} to {end} s", f"a part of the {DURATION_S} s")
    if not isinstance(entry["training_overlay"], dict | None):
        raise refuse("training_overlay", entry["training_overlay"], "an overlay or null")


def flat_row(record: ScenarioRecord, scenario: Scenario) -> dict[str, Any]:
    """A record and its scenario as one row of plain values: the record's fields, then what was drawn.

    Of PV systems and loads the peak (kW per phase); of models the initial batch size, the replicas before and after all
    ramps, and the number of ramps. Names of a record's fields are the contract's.
    """
    fields_of_record = {name: getattr(record, name) for name in CONTRACT_FIELDS if name != "training_overlay"}
    row = {**fields_of_record, "kind": record.kind, "recipe": record.digests.recipe if record.digests else None}
    overlay = scenario.params.training_overlay
    names = ("n_gpus", "target_peak_W_per_gpu", "intensity", "t_start", "t_end")
    row |= {f"overlay_{name}": None if overlay is None else overlay.to_dict()[name] for name in names}
    row |= {
        name: getattr(scenario.params, name)
        for name in ("pv_t_shift_s", "tvl_t_shift_s", "pv_warp", "tvl_warp", "tvl_profile_kind")
    }
    for kind, elements in (("pv", scenario.pv_systems), ("load", scenario.tvl)):
        row |= {f"{kind}_{i}_peak_kw_per_phase": element.peak_kw_per_phase for i, element in enumerate(elements)}
    for site in scenario.sites:
        for model in site.models:
            name = f"{site.name}_{model.label}"
            row[f"{name}_initial_batch_size"] = model.initial_batch_size
            row[f"{name}_replicas"] = model.replicas
            row[f"{name}_final_replicas"] = model.ramps[-1].target_replicas if model.ramps else model.replicas
            row[f"{name}_ramps"] = len(model.ramps)
    return row

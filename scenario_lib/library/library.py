"""Open a library, look at its records, and get their scenarios back: exactly, or not at all."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from scenario_lib._files import canonical_json, first_difference
from scenario_lib._html_table import html_table
from scenario_lib._values import as_flag, as_generator, as_path, as_position, as_whole_number, few, refuse
from scenario_lib.errors import LibraryError, ReplayError, UnknownNameError
from scenario_lib.library.arrow_store import StoredRecords, kinds_of
from scenario_lib.library.candidates import read_candidates
from scenario_lib.library.layout import CANDIDATES, METADATA
from scenario_lib.library.metadata import LibraryContents, read_contents
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.record import ScenarioRecord, flat_row
from scenario_lib.library.resolved_numbers import ResolvedNumbers, numbers_rows
from scenario_lib.scenario.model import Scenario, resolve, scenario_digest
from scenario_lib.scenario.randomize import randomize_scenario

if TYPE_CHECKING:
    import pyarrow as pa
    from openg2g.datacenter.workloads.training import TrainingTrace


AnyLibrary: TypeAlias = "str | os.PathLike[str] | ScenarioLibrary"
"""What functions that read a library take: its path, or the opened one."""


class ScenarioLibrary:
    """A library on disk.

    Behaves as a sequence of records, in the order in which they were accepted (that is, of their seeds). Opening it
    reads `metadata.json` only; traces are read when a record is asked for them. It can be pickled into workers. A
    sharded library (`scenario-lib convert`) behaves the same, and is the one to use from 10 000 records on.

    Args:
        path: The library's directory, written by scenario-lib or by openg2g's example.
        training_trace: The training trace that will be used, to be compared with the library's; None means the one
            that is generated from the library's parameters.
        from_numbers: Make every scenario of its stored numbers instead of drawing it: for a library whose seeds no
            longer mean the same draws, because numpy's random stream changed.

    Raises:
        LibraryError: Not a library, damaged, edited, empty, or of a newer format.
        ReplayError: The given training trace is not the library's.
        UnknownNameError: The system of a library by openg2g's example is not known here.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        training_trace: "TrainingTrace | None" = None,
        from_numbers: bool = False,
    ) -> None:
        self.path = as_path("path", path).resolve()
        self.from_numbers = as_flag("from_numbers", from_numbers)
        self._contents = read_contents(self.path)
        self._resolved = ResolvedNumbers(numbers_rows(self.path, self._contents), self._contents.opened_as)
        if not self._contents.records:
            raise LibraryError(f"{self.path}: the library is empty; build one that accepts at least one scenario")
        if from_numbers and not self._contents.digests:
            raise LibraryError(
                f"{self.path}: has no stored numbers, as scenario-lib did not write it; draw its scenarios"
            )
        self._checked_traces: set[str] = set()
        if training_trace is not None:
            from scenario_lib.models.power_traces import training_trace_digest

            for name in self._contents.recipes:
                self._require_training_trace(name, training_trace_digest(training_trace), "the given training trace")

    @property
    def scenarios(self) -> Sequence[ScenarioRecord]:
        """All records; those of a sharded library are made when they are asked for."""
        return self._contents.records

    @property
    def config(self) -> dict[str, Any]:
        """The contract's `config`, as found in `metadata.json`."""
        return self._contents.config

    @property
    def recipes(self) -> dict[str, Recipe]:
        """The recipes that records were drawn from, by identifier."""
        return self._contents.recipes

    @property
    def contents(self) -> LibraryContents:
        """Everything that `metadata.json` says."""
        return self._contents

    @cached_property
    def candidates(self) -> "pa.Table":
        """The candidates table, accepted or not, as an Arrow table; only libraries by scenario-lib have one."""
        with self.contents.unchanged(self.path / CANDIDATES) as stream:
            return read_candidates(self.path / CANDIDATES, stream)

    def to_pandas(self, table: str = "candidates") -> Any:
        """A table as a new pandas data frame.

        Args:
            table: "candidates", a row for every candidate that was tried, with NaN or None for figures that were not
                measured; or "records", a row for every record with its figures and all that was drawn, see `flat_row`.

        Raises:
            LibraryError: There is no candidates table, or it is damaged.
            ReplayError: A record's scenario cannot be drawn again.
            UnknownNameError: No such table.
        """
        if table == "candidates":
            return self.candidates.to_pandas()
        if table != "records":
            raise UnknownNameError(f"table is {table!r}; expected 'candidates' or 'records'")
        import pyarrow as pa

        return pa.Table.from_pylist([flat_row(record, self.materialize(record)) for record in self]).to_pandas()

    def __contains__(self, seed: object) -> bool:
        """Whether there is a record of a seed; a record itself is in its library too."""
        if isinstance(seed, ScenarioRecord):
            return any(record is seed or record == seed for record in self)
        return bool(self._positions(as_whole_number("seed", seed)))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]

    def __len__(self) -> int:
        return len(self.scenarios)

    @overload
    def __getitem__(self, index: int) -> ScenarioRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ScenarioRecord]: ...
    def __getitem__(self, index: int | slice) -> ScenarioRecord | Sequence[ScenarioRecord]:
        return self.scenarios[index if isinstance(index, slice) else as_position("record", index, len(self))]

    def __iter__(self) -> Iterator[ScenarioRecord]:
        return iter(self.scenarios)

    def __repr__(self) -> str:
        kinds = Counter(kinds_of(self.scenarios))
        counts = ", ".join(f"{kinds[kind]} {kind}" for kind in ("under", "over", "mixed") if kinds[kind])
        systems = ", ".join(sorted({recipe.experiment.name for recipe in self.recipes.values()}))
        label = "; from stored numbers" if self.from_numbers else ""
        return f"ScenarioLibrary({str(self.path)!r}: {len(self)} scenarios on {systems}; {counts}{label})"

    def _repr_html_(self) -> str:
        """The library as a table in a notebook."""
        kinds = Counter(record.kind for record in self)
        recovery = [record.recovery_frac for record in self]
        integrals = [record.baseline_integral for record in self]
        facts = {
            "directory": self.path,
            "feeders": ", ".join(sorted({recipe.experiment.name for recipe in self.recipes.values()})),
            "kinds": ", ".join(f"{count} {kind}" for kind, count in kinds.items()),
            "baseline integral": f"{min(integrals):.3g} to {max(integrals):.3g} pu s",
            "recovery by OFO": f"{min(recovery):.0%} to {max(recovery):.0%}",
        }
        return html_table(f"Scenario library of {len(self)}", facts)

    def sample(self, rng: np.random.Generator | int | None = None) -> ScenarioRecord:
        """A record, each with equal probability.

        Args:
            rng: Source of randomness, or a seed for one; None draws from the operating system, and cannot be repeated.

        Raises:
            InvalidSettingError: `rng` is none of these.
        """
        return self.scenarios[int(as_generator("rng", rng).integers(len(self)))]

    def record_for(self, seed: int) -> ScenarioRecord:
        """The record of a seed.

        Raises:
            UnknownNameError: No record, or more than one (of several recipes), has that seed.
        """
        found = [self.scenarios[position] for position in self._positions(as_whole_number("seed", seed))]
        if len(found) == 1:
            return found[0]
        if found:
            recipes = few(record.digests.recipe for record in found if record.digests)
            raise UnknownNameError(
                f"{self.path}: seed {seed} is there in several recipes ({recipes}); index by position"
            )
        nearby = ", ".join(str(record.seed) for record in self.scenarios[:5])
        raise UnknownNameError(f"{self.path}: no record of seed {seed}; the library has {nearby}, ...")

    def _positions(self, seed: int) -> list[int]:
        if isinstance(self.scenarios, StoredRecords):
            return self.scenarios.positions(seed)
        return self._by_seed.get(seed, [])

    @cached_property
    def _by_seed(self) -> dict[int, list[int]]:
        positions: dict[int, list[int]] = {}
        for position, record in enumerate(self.scenarios):
            positions.setdefault(record.seed, []).append(position)
        return positions

    def __getstate__(self) -> dict[str, Any]:
        """What a worker needs; tables that were read and the index of seeds are made again there."""
        return {name: value for name, value in vars(self).items() if name not in ("candidates", "_by_seed")}

    def own_record(self, record: ScenarioRecord | int) -> ScenarioRecord:
        """The record itself, or the one at an index.

        Raises:
            InvalidSettingError: Neither a record nor an index of one.
        """
        if isinstance(record, ScenarioRecord):
            return record
        index = as_whole_number("record", record)
        if not -len(self) <= index < len(self):
            raise refuse("record", index, f"a ScenarioRecord, or an index below the {len(self)} of {self.path}")
        return self.scenarios[index]

    def recipe_of(self, record: ScenarioRecord | int) -> Recipe:
        """The recipe that a record, given itself or by its index, was drawn from.

        Raises:
            UnknownNameError: The record is one of another library.
        """
        record = self.own_record(record)
        name = "" if record.digests is None else record.digests.recipe
        if name not in self.recipes:
            raise UnknownNameError(f"{self.path}: the record of seed {record.seed} is not one of this library")
        return self.recipes[name]

    def materialize(self, record: ScenarioRecord | int, *, from_numbers: bool | None = None) -> Scenario:
        """The scenario of a record: drawn again from its seed and recipe, or made of its stored numbers.

        Either way its digest is compared with that of the scenario that was screened, and a scenario made of stored
        numbers says so in its `origin`. Such a scenario is exact, its rollouts need not be: server layout, noise,
        latencies and the training trace are drawn when they run, from seeds, and the training trace is not compared
        here. `validate --from-numbers --replay` says whether rollouts are still equal.

        A library by openg2g's example has no digests; there the draws that records repeat are all that is compared.

        Args:
            record: One of this library, or its index.
            from_numbers: Whether to take the stored numbers; None means what the library was opened with.

        Raises:
            UnknownNameError: The record is one of another library.
            LibraryError: The parameters of the training trace, or the stored numbers, cannot be used.
            ReplayError: What is drawn now is not what was screened; the message names the first field that differs.
        """
        record = self.own_record(record)
        recipe = self.recipe_of(record)
        stored = self.from_numbers if from_numbers is None else from_numbers
        scenario = self._resolved_scenario(record) if stored else self._drawn_scenario(record, recipe)
        if not stored and record.digests is not None and scenario.training_run is not None:
            self._check_generated_trace(record.digests.recipe, recipe)
        self._compare_contract(record, scenario)
        return scenario

    def _drawn_scenario(self, record: ScenarioRecord, recipe: Recipe) -> Scenario:
        scenario = randomize_scenario(record.seed, experiment=recipe.experiment, settings=recipe.settings)
        if record.digests is not None and scenario_digest(scenario) != record.digests.scenario_digest:
            raise ReplayError(self._why_different(record, scenario))
        return scenario

    def _resolved_scenario(self, record: ScenarioRecord) -> Scenario:
        if record.digests is None:
            raise LibraryError(
                f"{self.path}: has no stored numbers, as scenario-lib did not write it; draw its scenarios"
            )
        return self._resolved.scenario(record)

    def stored_numbers(self, record: ScenarioRecord | int) -> dict[str, Any]:
        """The resolved numbers of a record's scenario, as they were when it was screened.

        Raises:
            LibraryError: The library has none, they are damaged, or not those that the record's digest is of.
        """
        return self._resolved.numbers(self.own_record(record))

    def _why_different(self, record: ScenarioRecord, drawn: Scenario) -> str:
        try:
            stored = self._resolved.written(record)
            now = json.loads(canonical_json(resolve(drawn)))
            difference = first_difference(now, stored) or "its stored digest was changed"
        except LibraryError as error:
            difference = f"{error}"
        return (
            f"{self.path}: the scenario of seed {record.seed} cannot be replayed: what is drawn now is not what was "
            f"screened ({difference}). Another numpy, an edited record or an edited recipe does this; "
            f"'scenario-lib validate' names the cause"
        )

    def _compare_contract(self, record: ScenarioRecord, scenario: Scenario) -> None:
        overlay = scenario.params.training_overlay
        drawn = {
            "pv_scale": scenario.params.pv_scale,
            "load_scale": scenario.params.load_scale,
            "training_overlay": None if overlay is None else overlay.to_dict(),
        }
        stored = {name: getattr(record, name) for name in drawn}
        difference = first_difference(drawn, stored)
        if difference:
            raise ReplayError(
                f"{self.path}: the scenario of seed {record.seed} cannot be replayed: {difference}. Another numpy, "
                f"an edited record, or a library merged from several settings does this"
            )

    def _check_generated_trace(self, name: str, recipe: Recipe) -> None:
        if name in self._checked_traces or recipe.data is None:
            return
        from scenario_lib.models.power_traces import regenerate_training_trace, training_trace_digest

        try:
            trace = regenerate_training_trace(recipe.data.training_trace_params)
        except (TypeError, ValueError) as error:
            text = " ".join(str(error).split())
            raise LibraryError(f"{self.path / METADATA}: training_trace_params: {text}") from None
        self._require_training_trace(name, training_trace_digest(trace), "the training trace generated now")
        self._checked_traces.add(name)

    def _require_training_trace(self, name: str, digest: str, what: str) -> None:
        data = self.recipes[name].data
        if data is not None and data.training_trace != digest:
            raise ReplayError(
                f"{self.path}: {what} is not the one that this library was screened with (digest {digest[:12]}..., "
                f"expected {data.training_trace[:12]}...); leave training_trace away to generate it"
            )
        self._checked_traces.add(name)


def library_path(field: str, value: object) -> Path:
    """The path of a library, given itself or as the opened library; see `arguments`."""
    return value.path if isinstance(value, ScenarioLibrary) else as_path(field, value)


def opened(library: AnyLibrary) -> ScenarioLibrary:
    """A library given by its path is opened; an opened one is taken as it is."""
    return library if isinstance(library, ScenarioLibrary) else ScenarioLibrary(library)

"""A library's candidates, by recipe, ready to be screened again."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scenario_lib.errors import LibraryError
from scenario_lib.library.candidates import CandidateRow, read_candidates
from scenario_lib.library.contents import LibraryContents, read_contents
from scenario_lib.library.files import CANDIDATES
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.record import ScenarioRecord
from scenario_lib.library.traces import Array
from scenario_lib.screening.assemble import Known
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.journal import JournalLine
from scenario_lib.screening.measure import MeasurePlan
from scenario_lib.screening.planned import PlannedStratum, plan_stratum
from scenario_lib.screening.request import CandidateRequest, Quota
from scenario_lib.screening.stored import needs_ofo, stored_line
from scenario_lib.simulation.engines import engine_from_label


@dataclass(frozen=True, slots=True)
class StoredStratum:
    """The candidates of one recipe, ready to be screened again.

    Attributes:
        lines: By seed.
        records: Of those that were accepted.
    """

    stratum: PlannedStratum
    recipe: Recipe
    recipe_id: str
    lines: Mapping[int, JournalLine]
    records: Mapping[int, ScenarioRecord]


def stored_strata(path: Path, thresholds: Mapping[str, float], specs_dir: Path | None = None) -> list[StoredStratum]:
    """A library's candidates, by recipe, with some thresholds changed.

    Args:
        path: The library, which may be empty.
        thresholds: Criteria by name; the others stay those that each recipe's candidates were screened by.
        specs_dir: Spec cache of a run.

    Raises:
        InvalidSettingError: A threshold has a value that is not allowed.
        LibraryError: The library is damaged, has no digests, or was screened on two engines.
    """
    path = path.resolve()
    contents = read_contents(path)
    if not contents.digests:
        raise LibraryError(f"{path}: has no candidates table to select from: written by openg2g's example")
    with contents.unchanged(path / CANDIDATES) as stream:
        table = read_candidates(path / CANDIDATES, stream)
    rows: dict[str, list[CandidateRow]] = {}
    for row in table.to_pylist():
        rows.setdefault(row["recipe"], []).append(CandidateRow(**row))
    criteria = {
        name: ScreeningCriteria(**{**contents.screening_of(name), **thresholds})  # type: ignore[arg-type]
        for name in rows
    }
    plans = {
        name: MeasurePlan(
            experiment=contents.recipes[name].experiment,
            settings=contents.recipes[name].settings,
            criteria=criteria[name],
            specs_dir=specs_dir,
            engine=engine_from_label(_engine(path, rows[name])),
        )
        for name in rows
    }
    return [_stored(contents, name, plans[name], rows[name]) for name in sorted(rows)]


def _stored(contents: LibraryContents, name: str, plan: MeasurePlan, rows: list[CandidateRow]) -> StoredStratum:
    recipe = contents.recipes[name]
    request = CandidateRequest(seeds=tuple(row.seed for row in rows), quota=_quota(contents, name))
    stratum = plan_stratum(plan, request, recipe.stratum)
    records = {r.seed: r for r in contents.records if r.proof is not None and r.proof.recipe == name}
    lines = {row.seed: stored_line(row, records.get(row.seed), stratum.plan) for row in rows}
    return StoredStratum(stratum, recipe, name, lines, records)


def _quota(contents: LibraryContents, recipe: str) -> Quota | None:
    """The quota that the stratum was built for; a recipe of several libraries has none in common."""
    quotas = [stratum.quota for stratum in contents.strata if stratum.recipe == recipe]
    return Quota(**quotas[0]) if len(quotas) == 1 and quotas[0] else None


def _engine(path: Path, rows: list[CandidateRow]) -> str:
    engines = sorted({row.engine for row in rows})
    if len(engines) > 1:
        raise LibraryError(
            f"{path}: recipe {rows[0].recipe} was screened on {' and '.join(engines)}, whose figures differ; select "
            f"from a library of one engine"
        )
    return engines[0]


def known_candidates(stored: list[StoredStratum]) -> Known:
    """What need not be measured again.

    Raises:
        LibraryError: Two recipes have a seed in common.
    """
    lines: dict[int, JournalLine] = {}
    records: dict[int, ScenarioRecord] = {}
    for part in stored:
        shared = lines.keys() & part.lines.keys()
        if shared:
            raise LibraryError(
                f"seed {min(shared)} has candidates of several recipes, which were merged; export one recipe, and "
                f"select from that"
            )
        lines |= part.lines
        records |= part.records
    unknown = {s for p in stored for s, line in p.lines.items() if needs_ofo(line.measured, p.stratum.plan)}

    def traces(seed: int) -> tuple[Array, Array]:
        return records[seed].baseline_voltage_pen_per_step, records[seed].ofo_voltage_pen_per_step

    return Known({seed: line for seed, line in lines.items() if seed not in unknown}, traces)

"""What a recipe without strata builds is fixed: figures, order and form of the records, down to the byte."""

import hashlib
import json
from pathlib import Path

import measured_samples
import pyarrow.parquet as pq
import pytest

from scenario_lib._files import canonical_json
from scenario_lib.execution.tasks import TaskOutcome
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.screening import build as module
from scenario_lib.screening.build import build_library
from scenario_lib.screening.candidate import MeasurePlan
from scenario_lib.screening.criteria import ScreeningCriteria
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.simulation.engines import Engine

PLAN = MeasurePlan(load_experiment("ieee13"), RandomizationSettings(), ScreeningCriteria(), engine=Engine("reference"))

# Of the builds before there were strata; versions, and the headers of file formats, are left out.
SAME = {
    "resolved": "75a7549b06374554764e00baa57f0dec581464637dff2e97c55051e46b53972a",
    "traces": "278455f9db6def35c405e55f91c24b58078e8a9f5aa18c8ac66e5cdbaf6f625e",
}
TWELVE = {
    "metadata": "48a6a4c1934ae6b65dfd9b21251205489f1a25e521638f649af66d9cc2fb682f",
    "candidates": "2a825b0a004855a2b2cc4ca6edbae7ae2059b11120f1542dcf60914ab30172b1",
    **SAME,
}
FOUR_ACCEPTED = {
    "metadata": "a8f72b86c9383879ab51a5c2ec87f74551d417680b75b89a7f88410198e03da4",
    "candidates": "86472ebfaaea97ee1f10a6bc814cb93a6c75cca15d9773aea4286dfd8cae9c4b",
    **SAME,
}


def digests_of(library: Path) -> dict[str, str]:
    metadata = json.loads((library / "metadata.json").read_text())
    stable = {key: metadata[key] for key in ("config", "reproducible", "screening", "scenarios")}
    contents = {
        "metadata": canonical_json({**stable, "recipes": sorted(metadata["recipes"])}),
        "candidates": canonical_json(_table(library / "candidates.parquet")),
        "resolved": canonical_json(_table(library / "resolved.parquet")),
    }
    found = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in contents.items()}
    return {**found, "traces": hashlib.sha256((library / "traces.npz").read_bytes()).hexdigest()}


def _table(path: Path) -> list[object]:
    table = pq.read_table(path)
    return [table.column_names, [str(kind) for kind in table.schema.types], table.to_pylist()]


@pytest.mark.parametrize(
    ("asked", "digests"), [(CandidateRequest(candidates=12), TWELVE), (CandidateRequest(accept=4), FOUR_ACCEPTED)]
)
def test_a_recipe_without_strata_builds_what_it_always_built(
    tmp_path: Path, monkeypatch, asked: CandidateRequest, digests: dict[str, str]
) -> None:
    monkeypatch.setattr(module, "measure_candidate", measured_samples.measure)
    monkeypatch.setattr(
        module, "run_tasks", lambda function, tasks, options: (TaskOutcome(seed, function(seed)) for seed in tasks)
    )
    assert digests_of(build_library(PLAN, asked, BuildOptions(tmp_path / "library")).path) == digests

"""One recipe as a library of its own, which openg2g's example can load."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from combined_samples import PLAIN, SUNNY, content, seeds_between, write_combined

from scenario_lib.errors import UnknownNameError
from scenario_lib.library.combine import export_recipe, merge_libraries
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.metadata import recipe_from_config
from scenario_lib.library.record import CONTRACT_FIELDS, RecordFields


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    write_combined(folder / "plain", [(PLAIN, seeds_between(0, 3))], rejected=[9007])
    write_combined(folder / "sunny", [(SUNNY, seeds_between(1, 4))], rejected=[8007])
    merge_libraries([folder / "plain", folder / "sunny"], folder / "merged")
    return folder


@pytest.mark.parametrize(("name", "recipe"), [("plain", PLAIN), ("sunny", SUNNY)])
def test_exporting_undoes_merging(sources: Path, tmp_path: Path, name: str, recipe) -> None:
    report = export_recipe(sources / "merged", recipe.id, tmp_path / "out")
    assert (report.recipe, report.records, report.candidates) == (recipe.id, 3, 4)
    assert content(tmp_path / "out") == content(sources / name)


def test_the_two_files_of_the_contract_are_whole(sources: Path, tmp_path: Path) -> None:
    """As the example reads them: the settings from `config`, the fields of a record and nothing else, the traces."""
    merged = json.loads((sources / "merged" / "metadata.json").read_text())
    assert "randomize_kwargs" not in merged["config"]
    export_recipe(sources / "merged", SUNNY.id, tmp_path / "out")
    metadata = json.loads((tmp_path / "out" / "metadata.json").read_text())
    assert metadata["config"]["randomize_kwargs"]["pv_scale_min"] == 2.0
    assert recipe_from_config(metadata["config"], "config").settings == SUNNY.settings
    traces = np.load(tmp_path / "out" / "traces.npz")
    records = [RecordFields(**fields) for fields in metadata["scenarios"]]
    assert [set(fields) for fields in metadata["scenarios"]] == [set(CONTRACT_FIELDS)] * 3
    for index, record in enumerate(ScenarioLibrary(tmp_path / "out")):
        assert records[index].seed == record.seed
        assert np.array_equal(traces[f"ofo_{index}"], record.ofo_voltage_pen_per_step)
        assert np.array_equal(traces[f"baseline_{index}"], record.baseline_voltage_pen_per_step)


def test_a_stratum_is_exported_by_its_name(tmp_path: Path) -> None:
    evening, noon = replace(PLAIN, stratum="evening"), replace(PLAIN, stratum="noon")
    folder = write_combined(tmp_path / "library", [(evening, [7]), (noon, [1007, 2007])])
    assert export_recipe(folder, "noon", tmp_path / "noon").recipe == noon.id
    assert [record.seed for record in ScenarioLibrary(tmp_path / "noon")] == [1007, 2007]
    assert export_recipe(tmp_path / "noon", None, tmp_path / "only").records == 2
    with pytest.raises(UnknownNameError) as caught:
        export_recipe(folder, None, tmp_path / "which")
    assert "which recipe? expected one of" in str(caught.value)
    assert f"{noon.id} (noon)" in str(caught.value)
    with pytest.raises(UnknownNameError, match="no recipes are called 'dawn'"):
        export_recipe(folder, "dawn", tmp_path / "dawn")
    assert not (tmp_path / "dawn").exists()

"""`validate`, `info` and `show`: what they print and how they exit."""

import json
import shutil
from pathlib import Path

import pytest
from library_samples import edit_metadata

from scenario_lib.library.library import ScenarioLibrary

DATA = Path(__file__).parents[1] / "data"
OPENG2G = DATA / "openg2g_library_ieee13"


@pytest.fixture
def library(built_library: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built_library, tmp_path / "library"))


def test_validate_says_held(run, built_library: Path) -> None:
    seen = run("validate", built_library)
    assert (seen.exit_code, seen.errors) == (0, "")
    assert seen.output == f"held: identical - {built_library}: 2 records drawn again, 0 replayed\n"


def test_validate_as_json(run, built_library: Path) -> None:
    seen = run("validate", built_library, "--json")
    assert seen.exit_code == 0
    (recipe,) = ScenarioLibrary(built_library).recipes
    identical = {"recipe": recipe, "grade": "held", "replayed": False, "causes": []}
    assert json.loads(seen.output) == {
        "path": str(built_library),
        "grade": "held",
        "causes": [],
        "records": 2,
        "replayed": 0,
        "from_numbers": False,
        "findings": [],
        "verdicts": [{"seed": 7, **identical}, {"seed": 2007, **identical}],
    }


def test_validate_names_what_differs_and_exits_1(run, library: Path) -> None:
    edit_metadata(library, lambda metadata: metadata["scenarios"][1].update(load_scale=1.0))
    seen = run("validate", library)
    assert seen.exit_code == 1
    assert seen.output.startswith(f"differs: {library}: the scenario of seed 2007 cannot be replayed: load_scale")
    assert seen.output.splitlines()[-2] == "likely cause: an edited record"
    assert seen.output.splitlines()[-1].startswith("DIFFERS - ")
    assert seen.output.splitlines()[-1].endswith("0 replayed; 1 identical, 1 different")
    report = json.loads(run("validate", library, "--json").output)
    assert (report["grade"], report["causes"]) == ("differs", ["edited_record"])
    assert [(finding["grade"], finding["record"]) for finding in report["findings"]] == [("differs", 1)]
    assert [(verdict["seed"], verdict["grade"]) for verdict in report["verdicts"]] == [(7, "held"), (2007, "differs")]


def test_validate_from_numbers_says_so(run, built_library: Path) -> None:
    seen = run("validate", built_library, "--from-numbers")
    assert seen.exit_code == 0
    assert seen.output == f"held: identical - {built_library}: 2 records made of stored numbers, 0 replayed\n"
    assert json.loads(run("validate", built_library, "--from-numbers", "--json").output)["from_numbers"] is True
    assert "has no stored numbers" in run("validate", OPENG2G, "--from-numbers").errors


def test_validate_of_a_damaged_library_exits_1_in_one_line(run, library: Path) -> None:
    (library / "metadata.json").write_bytes(b"{")
    seen = run("validate", library)
    assert seen.exit_code == 1
    assert seen.output == ""
    assert seen.errors.startswith(f"Error: {library / 'metadata.json'}: cannot be read")
    assert seen.errors.count("\n") == 1


def test_validate_without_digests_exits_3(run) -> None:
    seen = run("validate", OPENG2G)
    assert seen.exit_code == 3
    assert seen.output.splitlines()[-1].startswith("cannot be verified - ")
    assert json.loads(run("validate", OPENG2G, "--json").output)["grade"] == "not_verifiable"


def test_info_as_text_and_as_json(run, built_library: Path) -> None:
    seen = run("info", built_library)
    assert seen.exit_code == 0
    assert "records             2 on ieee13: 2 under; 2 with overlay" in seen.output
    facts = json.loads(run("info", built_library, "--json").output)
    assert facts["records"] == 2
    assert facts["path"] == str(built_library)
    assert facts["verifiable"] is True


def test_info_of_openg2gs_library_says_that_it_cannot_be_proven(run) -> None:
    assert "no digests: written by openg2g's example" in run("info", OPENG2G).output


def test_show_from_a_library_by_system_and_by_recipe_agree(run, built_library: Path, tmp_path: Path) -> None:
    stored = run("show", 2007, "--library", built_library)
    assert stored.exit_code == 0
    library = ScenarioLibrary(built_library)
    scenario = json.loads(stored.output)
    assert scenario == library.materialize(library.record_for(2007)).to_dict()
    assert scenario["seed"] == 2007
    assert json.loads(run("show", 2007, "--system", "ieee13").output) == scenario
    (tmp_path / "r.toml").write_text('system = "ieee13"\n[randomization]\nramp_down_frac_min = 0.5\n')
    assert json.loads(run("show", 2007, "--config", tmp_path / "r.toml").output) == scenario
    assert json.loads(run("show", 2007, "--library", OPENG2G).output) == scenario


def test_show_with_another_recipe_draws_another_scenario(run, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text('system = "ieee13"\noverlay = false\n')
    shown = json.loads(run("show", 2007, "--config", tmp_path / "r.toml").output)
    assert shown["training_run"] is None
    assert json.loads(run("show", 2007, "--config", tmp_path / "r.toml", "--system", "ieee34").output)["dc_sites"]


def test_show_of_a_users_own_feeder(run, village_file: Path) -> None:
    shown = json.loads(run("show", 7, "--system", village_file).output)
    assert list(shown["dc_sites"]) == ["hall"]


def test_show_of_a_seed_that_is_not_there(run, built_library: Path) -> None:
    seen = run("show", 8, "--library", built_library)
    assert seen.exit_code == 1
    assert f"Error: {built_library}: no record of seed 8; the library has 7, 2007" in seen.errors


def test_show_refuses_an_edited_record(run, library: Path) -> None:
    edit_metadata(library, lambda metadata: metadata["scenarios"][0].update(pv_scale=1.0))
    seen = run("show", 7, "--library", library)
    assert seen.exit_code == 1
    assert "the scenario of seed 7 cannot be replayed: pv_scale" in seen.errors
    assert seen.output == ""

"""`scenario-lib convert`: there, back, and refusals of one line."""

import json
from pathlib import Path

OPENG2G = Path(__file__).parents[1] / "data" / "openg2g_library_ieee13"


def test_there_and_back(run, built_library: Path, tmp_path: Path) -> None:
    seen = run("convert", built_library, "--to", "sharded", "--out", tmp_path / "sharded")
    assert (seen.exit_code, seen.errors) == (0, "")
    assert seen.output.splitlines()[0].startswith("sharded             2 records, ")
    assert seen.output.splitlines()[-1] == f"library             {tmp_path / 'sharded'}"
    assert run("validate", tmp_path / "sharded", "--replay", "1").exit_code == 0
    facts = json.loads(
        run("convert", tmp_path / "sharded", "--to", "contract", "--out", tmp_path / "b", "--json").output
    )
    assert (facts["store"], facts["records"], facts["notes"]) == ("contract", 2, [])
    for path in built_library.iterdir():
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes()
    shown, expected = (run("show", 2007, "--library", path).output for path in (tmp_path / "sharded", built_library))
    assert shown == expected


def test_the_contract_has_two_names(run, built_library: Path, tmp_path: Path) -> None:
    run("convert", built_library, "--to", "sharded", "--out", tmp_path / "sharded")
    for name in ("openg2g", "contract"):
        assert run("convert", tmp_path / "sharded", "--to", name, "--out", tmp_path / name).exit_code == 0
        assert all((tmp_path / name / path.name).read_bytes() == path.read_bytes() for path in built_library.iterdir())
    assert "--to [openg2g|sharded]" in run("convert", "--help").output


def test_refusals_are_one_line(run, built_library: Path, tmp_path: Path) -> None:
    for source, store, code in (
        (built_library, "contract", 2),
        (OPENG2G, "sharded", 1),
        (tmp_path / "no", "sharded", 1),
    ):
        seen = run("convert", source, "--to", store, "--out", tmp_path / "out")
        assert (seen.exit_code, seen.output) == (code, "")
        assert seen.errors.startswith("Error: ")
        assert seen.errors.count("\n") == 1
        assert not (tmp_path / "out").exists()
    assert run("convert", built_library, "--to", "zip", "--out", tmp_path / "out").exit_code == 2

"""Directories that are not, or no longer, what scenario-lib wrote: one line that names the file and the remedy."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from library_samples import edit_metadata, fix_digests

from scenario_lib.errors import LibraryError, ScenarioLibError
from scenario_lib.library.library import ScenarioLibrary

Edit = Callable[[dict[str, Any]], Any]


def refusal(path: Path) -> str:
    with pytest.raises(LibraryError) as caught:
        ScenarioLibrary(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_no_directory_a_file_an_empty_and_a_foreign_directory(tmp_path: Path) -> None:
    assert f"{tmp_path / 'absent'}: no such directory" in refusal(tmp_path / "absent")
    (tmp_path / "file").write_text("text")
    assert f"{tmp_path / 'file'}: no such directory" in refusal(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert f"{tmp_path / 'empty' / 'metadata.json'}: no such file" in refusal(tmp_path / "empty")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "metadata.json").write_text('{"name": "something else"}')
    assert "expected the metadata of a scenario library" in refusal(tmp_path / "other")
    (tmp_path / "other" / "metadata.json").write_text("[]")
    assert "expected the metadata of a scenario library" in refusal(tmp_path / "other")


@pytest.mark.parametrize("name", ["metadata.json", "digests.json"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-2],
        lambda content: b"\x00" * len(content),
        lambda content: content.replace(b"{", b"{" * 5, 1),
        lambda content: b"[" * 100_000,
        lambda content: content.replace(b":", b":NaN,", 1),
        lambda content: b"null",
        lambda content: b"{}",
        lambda content: b'"metadata"',
    ],
)
def test_a_damaged_json_file_is_named(library_path: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    path = library_path / name
    path.write_bytes(damage(path.read_bytes()))
    assert refusal(library_path).startswith(f"{path}: ")


@pytest.mark.parametrize("name", ["metadata.json", "digests.json"])
def test_a_missing_json_file_is_named(library_path: Path, name: str) -> None:
    (library_path / name).unlink()
    assert refusal(library_path).startswith(f"{library_path / name}: no such file")


def test_any_edit_of_the_metadata_is_noticed(library_path: Path) -> None:
    path = library_path / "metadata.json"
    path.write_text(path.read_text().replace('"recovery_frac":0.94', '"recovery_frac":0.95'))
    assert refusal(library_path).startswith(f"{path}: is not the file that was written")
    assert "restore it, or build the library again" in refusal(library_path)


def test_an_edited_digest_is_noticed(library_path: Path) -> None:
    path = library_path / "digests.json"
    digests = json.loads(path.read_text())
    digests["sha256"]["metadata.json"] = "0" * 64
    path.write_text(json.dumps(digests))
    assert "its digest differs from digests.json" in refusal(library_path)


@pytest.mark.parametrize("version", [0, 1, 3, 2.5, "2", None, True, [2]])
def test_another_version_is_refused_with_the_remedy(library_path: Path, version: object) -> None:
    edit_metadata(library_path, lambda metadata: metadata.update(format_version=version))
    message = refusal(library_path)
    assert f"has format version {version!r}, this version of scenario-lib reads 2" in message
    assert "use the version that wrote it, or build it again" in message


@pytest.mark.parametrize("keys", [["format_version"], ["format_version", "proofs"], ["format_version", "recipes"]])
def test_our_library_cannot_pose_as_one_without_digests(library_path: Path, keys: list[str]) -> None:
    def strip(metadata: dict[str, Any]) -> None:
        for key in keys:
            del metadata[key]
        metadata["scenarios"][0]["recovery_frac"] = 0.99

    edit_metadata(library_path, strip)
    assert "has format version None" in refusal(library_path)


# Edits whose author also corrects `digests.json`: what is left is the meaning.
EDITS: list[tuple[Edit, str]] = [
    (lambda m: m.pop("scenarios"), "scenarios"),
    (lambda m: m.update(scenarios={}), "expected lists"),
    (lambda m: m.update(scenarios=5), "not what a library holds"),
    (lambda m: m.update(scenarios=[5, 6, 7]), "scenarios\\[0\\]: is 5; expected the fields of a record"),
    (lambda m: m["scenarios"].pop(), "not what a library holds"),
    (lambda m: m["proofs"].pop(), "not what a library holds"),
    (lambda m: m.update(proofs=None), "not what a library holds"),
    (lambda m: m["proofs"][0].pop("engine"), "not what a library holds.*engine"),
    (lambda m: m["proofs"][0].update(extra=1), "not what a library holds.*extra"),
    (lambda m: m["proofs"][0].update(recipe="../../etc"), "scenarios\\[0\\] names recipe '../../etc'"),
    (lambda m: m["proofs"][0].update(recipe=["x"]), "proofs\\[0\\]: recipe is \\['x'\\]; expected a text"),
    (lambda m: m["proofs"][0].update(scenario_digest=5), "proofs\\[0\\]: scenario_digest is 5"),
    (lambda m: m["scenarios"][1].pop("seed"), "scenarios\\[1\\]: fields missing or not known: seed"),
    (lambda m: m["scenarios"][1].update(seed2=1), "scenarios\\[1\\]: fields missing or not known: seed2"),
    (lambda m: m["scenarios"][0].update(seed=-7), "scenarios\\[0\\]: seed is -7"),
    (lambda m: m["scenarios"][0].update(seed=7.0), "scenarios\\[0\\]: seed is 7.0"),
    (lambda m: m["scenarios"][0].update(seed="7"), "scenarios\\[0\\]: seed is '7'"),
    (lambda m: m["scenarios"][0].update(seed=True), "scenarios\\[0\\]: seed is True"),
    (lambda m: m["scenarios"][0].update(pv_scale="1"), "scenarios\\[0\\]: pv_scale is '1'; expected a finite number"),
    (lambda m: m["scenarios"][0].update(pv_scale=None), "scenarios\\[0\\]: pv_scale is None; expected a finite number"),
    (lambda m: m["scenarios"][0].update(recovery_frac=[]), "scenarios\\[0\\]: recovery_frac is \\[\\]"),
    (lambda m: m["scenarios"][0].update(ofo_integral=10**400), "scenarios\\[0\\]: ofo_integral is "),
    (lambda m: m["scenarios"][0].update(t_control_start=1.5), "scenarios\\[0\\]: t_control_start is 1.5"),
    (lambda m: m["scenarios"][0].update(t_control_end=True), "scenarios\\[0\\]: t_control_end is True"),
    (
        lambda m: m["scenarios"][0].update(t_control_start=-1),
        "scenarios\\[0\\]: t_control_start is -1; expected at least 0",
    ),
    (
        lambda m: m["scenarios"][0].update(t_control_end=3601),
        "scenarios\\[0\\]: control window is '1735 to 3601 s'; expected",
    ),
    (
        lambda m: m["scenarios"][0].update(t_control_end=1735),
        "scenarios\\[0\\]: control window is '1735 to 1735 s'; expected",
    ),
    (lambda m: m["scenarios"][0].update(training_overlay=[1]), "scenarios\\[0\\]: training_overlay is \\[1\\]"),
    (lambda m: m.pop("recipes"), "not what a library holds.*recipes"),
    (lambda m: m.update(recipes={}), "names recipe"),
    (lambda m: m.update(recipes=[]), "not what a library holds"),
    (lambda m: next(iter(m["recipes"].values())).pop("experiment"), "experiment"),
    (lambda m: next(iter(m["recipes"].values()))["experiment"].update(surprise=1), "surprise"),
    (lambda m: next(iter(m["recipes"].values()))["experiment"].update(sites=[]), "sites"),
    (lambda m: next(iter(m["recipes"].values()))["randomize_kwargs"].update(ramp_up_prob=2), "ramp_up_prob is 2"),
    (lambda m: next(iter(m["recipes"].values())).update(randomize_kwargs=5), "not what a library holds"),
    (lambda m: next(iter(m["recipes"].values())).update(data=5), "data"),
    (lambda m: next(iter(m["recipes"].values()))["data"].pop("circuit"), "circuit"),
    (lambda m: m.update(config=None), "has no config"),
    (lambda m: m.update(screening=5), "not what a library holds"),
    (lambda m: m.update(versions=[1]), "not what a library holds"),
]


@pytest.mark.parametrize(("edit", "text"), EDITS, ids=range(len(EDITS)))
def test_metadata_that_makes_no_sense_is_one_line(library_path: Path, edit: Edit, text: str) -> None:
    edit_metadata(library_path, edit)
    with pytest.raises(LibraryError, match=text) as caught:
        ScenarioLibrary(library_path)
    assert str(library_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_seed_that_is_there_twice_in_one_recipe_is_refused(library_path: Path) -> None:
    def repeat(metadata: dict[str, Any]) -> None:
        metadata["scenarios"][1] = metadata["scenarios"][0]
        metadata["proofs"][1] = metadata["proofs"][0]

    edit_metadata(library_path, repeat)
    assert "scenarios[1]: seed 7 is there twice" in refusal(library_path)


def test_an_empty_library_is_a_value_error_that_names_the_path(library_path: Path) -> None:
    edit_metadata(library_path, lambda metadata: metadata.update(scenarios=[], proofs=[]))
    with pytest.raises(ValueError, match=f"{library_path}: the library is empty"):
        ScenarioLibrary(library_path)


@pytest.mark.parametrize("name", ["candidates.parquet", "resolved.parquet"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-30]),
        lambda path: path.write_bytes(path.read_bytes().replace(b"reference", b"otherwise")),
        lambda path: (path.unlink(), path.mkdir()),
    ],
)
def test_a_table_unlike_its_digest_is_never_read(library_path: Path, name: str, damage: Callable) -> None:
    library = ScenarioLibrary(library_path)
    before = (library_path / name).read_bytes()
    if name == "resolved.parquet":
        (library_path / name).write_bytes(before.replace(b"peak_kw", b"peak_mw"))
    damage(library_path / name)
    with pytest.raises(LibraryError) as caught:
        _ = library.candidates if name == "candidates.parquet" else library.stored_numbers(library[0])
    assert str(caught.value).startswith(f"{library_path / name}: ")
    assert "\n" not in str(caught.value)


def test_a_table_whose_digest_was_corrected_must_still_be_one(library_path: Path) -> None:
    shutil.copy(library_path / "resolved.parquet", library_path / "candidates.parquet")
    fix_digests(library_path)
    with pytest.raises(LibraryError, match=r"candidates.parquet: has columns"):
        _ = ScenarioLibrary(library_path).candidates


def test_a_library_whose_files_are_links_to_nothing(library_path: Path) -> None:
    (library_path / "metadata.json").unlink()
    (library_path / "metadata.json").symlink_to("nowhere")
    assert "metadata.json: no such file" in refusal(library_path)


def test_random_bytes_in_the_metadata_never_crash(library_path: Path) -> None:
    """Every 97th byte of the metadata in turn, its digest corrected each time."""
    path = library_path / "metadata.json"
    whole = path.read_bytes()
    refused = 0
    for position in range(0, len(whole), 97):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x15]) + whole[position + 1 :])
        fix_digests(library_path)
        try:
            library = ScenarioLibrary(library_path)
            for record in library:
                library.materialize(record)
        except ScenarioLibError as error:
            refused += 1
            assert str(library_path) in str(error)
            assert "\n" not in str(error)
    assert refused > 20

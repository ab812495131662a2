"""Writing that is all or nothing, and strict JSON."""

import json
from pathlib import Path

import pytest

from scenario_lib._files import read_json, replacing, write_json
from scenario_lib.errors import DataFileError, LibraryError


def test_a_file_is_replaced_only_when_the_block_ends_well(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="half-way"), replacing(path) as stream:
        stream.write(b"half")
        assert path.read_bytes() == b"old"
        raise RuntimeError("half-way")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path], "no temporary file is left"
    with replacing(path) as stream:
        stream.write(b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_json_comes_back_and_equal_values_are_equal_bytes(tmp_path: Path) -> None:
    value = {"b": [{"y": 0.1, "x": None}, {"x": 1}], "a": {"nested": [True, "ü"]}, "empty": []}
    write_json(tmp_path / "one.json", value)
    write_json(tmp_path / "two.json", json.loads(json.dumps(value)))
    assert read_json(tmp_path / "one.json") == value
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_list_entries_have_a_line_each(tmp_path: Path) -> None:
    write_json(tmp_path / "f.json", {"entries": [{"b": 1, "a": 2}, {"a": 3}]})
    assert (tmp_path / "f.json").read_text() == '{\n"entries": [\n{"a":2,"b":1},\n{"a":3}\n]\n}\n'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_what_json_cannot_say_is_not_written(tmp_path: Path, number: float) -> None:
    with pytest.raises(DataFileError, match="finite numbers only"):
        write_json(tmp_path / "f.json", {"a": [number]})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "cannot be read"),
        (b'{"a": 1', "cannot be read"),
        (b'{"a": NaN}', "NaN is not allowed"),
        (b'{"a": -Infinity}', "-Infinity is not allowed"),
        (b'{"a": 1e999}', "1e999 is not allowed"),
        (b'{"a": "\xff"}', "cannot be read"),
        (b"[" * 200_000 + b"]" * 200_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "cannot be read"),
    ],
)
def test_what_is_not_strict_json_is_one_line_with_the_remedy(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(content)
    with pytest.raises(LibraryError, match=text) as caught:
        read_json(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "build the library again" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"seed": 7, "seed": 8}')
    with pytest.raises(LibraryError, match="'seed' is there twice"):
        read_json(tmp_path / "f.json")


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"f.json: no such file.*not a library"):
        read_json(tmp_path / "f.json")
    with pytest.raises(LibraryError, match="cannot be read"):
        read_json(tmp_path)

"""Canonical JSON: equal data are equal bytes; and where two values differ."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from scenario_lib._files import canonical_json, digest_of, file_digest, first_difference
from scenario_lib.errors import DataFileError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1.0, None, True, "x"]}, '{"a":[1.0,null,true,"x"],"b":1}'),
        ((1, (2, 3)), "[1,[2,3]]"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e22, "1e+22"),
        (-0.0, "0.0"),
        ({"x": [-0.0, {"y": -0.0}]}, '{"x":[0.0,{"y":0.0}]}'),
        (-1e-300, "-1e-300"),
        ("Zürich", '"Z\\u00fcrich"'),
        ({}, "{}"),
    ],
)
def test_canonical_text(value: Any, text: str) -> None:
    assert canonical_json(value) == text
    assert digest_of(value) == hashlib.sha256(text.encode()).hexdigest()


def test_order_of_keys_does_not_matter() -> None:
    assert digest_of({"a": 1, "b": {"c": 2, "d": 3}}) == digest_of({"b": {"d": 3, "c": 2}, "a": 1})
    assert digest_of([1, 2]) != digest_of([2, 1])
    assert digest_of(1) != digest_of(1.0)


def test_text_is_read_back_as_it_was() -> None:
    value = {"x": [0.1, 1e-320, 1.7976931348623157e308, 2**60], "y": None}
    assert json.loads(canonical_json(value)) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_only_finite_numbers(value: Any) -> None:
    with pytest.raises(DataFileError, match="expected finite numbers only"):
        canonical_json(value)


def test_file_digest(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert file_digest(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.mark.parametrize(
    ("found", "expected", "sentence"),
    [
        (1, 2, "value: found 1, expected 2"),
        ({"a": {"b": [0, 1]}}, {"a": {"b": [0, 2]}}, "a.b[1]: found 1, expected 2"),
        ({"b": 1, "a": 1}, {"b": 2, "a": 2}, "a: found 1, expected 2"),
        ({"a": [1, 2]}, {"a": [1]}, "a: found [1, 2], expected [1]"),
        ({}, {"a": 1}, "a: found nothing, expected 1"),
        ({"a": 1}, {}, "a: found 1, expected nothing"),
        ({"a": None}, {}, "a: found None, expected nothing"),
        ([{"a": 1}], [{"a": "1"}], "[0].a: found 1, expected '1'"),
        ({"a": 1}, [1], "value: found {'a': 1}, expected [1]"),
    ],
)
def test_first_difference_is_named(found: Any, expected: Any, sentence: str) -> None:
    assert first_difference(found, expected) == sentence


@pytest.mark.parametrize("value", [1, "a", None, [], {}, {"a": [1, {"b": 2.5}]}])
def test_no_difference(value: Any) -> None:
    assert first_difference(value, json.loads(json.dumps(value))) is None

"""One form of plain data, so that equal data are equal bytes and have equal digests on every machine."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from scenario_lib.errors import DataFileError
from scenario_lib.feeders.regular_files import open_regular


class _Absent:
    """Stands for a key that only the other side has, which is not the same as null."""

    def __repr__(self) -> str:
        return "nothing"


_ABSENT = _Absent()


def canonical_json(value: Any) -> str:
    """Strict JSON with sorted keys, shortest round-trip floats, no spaces, and 0.0 for -0.0.

    Raises:
        DataFileError: The value holds NaN or an infinity.
    """
    try:
        return json.dumps(_without_negative_zero(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise DataFileError(f"cannot be written as JSON: {error}; expected finite numbers only") from None


def digest_of(value: Any) -> str:
    """SHA-256 of the canonical form."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with open_regular(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def first_difference(found: Any, expected: Any, place: str = "") -> str | None:
    """Where two plain values first differ, as "a.b[2]: found 1, expected 2"; None if nowhere."""
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = sorted(found.keys() | expected.keys())
        pairs = [(f"{place}.{key}".lstrip("."), found.get(key, _ABSENT), expected.get(key, _ABSENT)) for key in keys]
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        pairs = [(f"{place}[{i}]", a, b) for i, (a, b) in enumerate(zip(found, expected, strict=True))]
    else:
        return None if found == expected else f"{place or 'value'}: found {found!r}, expected {expected!r}"
    differences = (first_difference(a, b, where) for where, a, b in pairs)
    return next((difference for difference in differences if difference), None)


def _without_negative_zero(value: Any) -> Any:
    if isinstance(value, float):
        return 0.0 if value == 0 and math.copysign(1.0, value) < 0 else value
    if isinstance(value, dict):
        return {key: _without_negative_zero(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_negative_zero(entry) for entry in value]
    return value

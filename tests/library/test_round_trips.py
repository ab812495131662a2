"""Whatever is written is read back, and equal values are equal bytes: for any values, not only for a scenario's."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scenario_lib._files import canonical_json, parse_json, read_json, write_json
from scenario_lib.library.npz_store import TraceFile, trace_digest, write_traces

FINITE = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
QUICK = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def settled(value: Any) -> Any:
    """What the canonical form does to a value: keys in order, no negative zero."""
    if isinstance(value, dict):
        return {key: settled(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [settled(entry) for entry in value]
    return 0.0 if isinstance(value, float) and value == 0 else value


@QUICK
@given(st.dictionaries(st.text(), PLAIN, max_size=5))
def test_json_comes_back_with_its_types(tmp_path_factory, value: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("json") / "file.json"
    write_json(path, value)
    assert repr(settled(read_json(path))) == repr(settled(value))


@QUICK
@given(PLAIN)
def test_the_canonical_form_is_one_fixed_point(value: Any) -> None:
    text = canonical_json(value)
    assert repr(parse_json(text)) == repr(settled(value))
    assert canonical_json(parse_json(text)) == text


@QUICK
@given(st.lists(st.tuples(st.lists(FINITE, max_size=20), st.lists(FINITE, max_size=20)), max_size=3))
def test_traces_come_back_bit_for_bit(tmp_path_factory, lists: list[tuple[list[float], list[float]]]) -> None:
    path = tmp_path_factory.mktemp("traces") / "traces.npz"
    pairs = [(np.array(baseline, float), np.array(ofo, float)) for baseline, ofo in lists]
    write_traces(path, pairs)
    for index, (baseline, ofo) in enumerate(pairs):
        for name, trace in ((f"baseline_{index}", baseline), (f"ofo_{index}", ofo)):
            assert TraceFile(path).read(name, trace_digest(trace)).tobytes() == trace.tobytes()
    again = path.with_name("again.npz")
    write_traces(again, iter(pairs))
    assert again.read_bytes() == path.read_bytes()

"""The canary: if numpy changes its streams (its policy NEP 19 allows that), every seed means another scenario.

Where the first test fails, no other failure in this folder is news: pin numpy, and say so to users with libraries.
"""

import json

import numpy as np
import pytest

from scenario_lib._parsing import data_dir
from scenario_lib.scenario import canary
from scenario_lib.scenario.canary import moved_draws


def test_numpy_draws_what_it_drew() -> None:
    assert moved_draws() == ()


def test_the_recorded_draws_are_not_few() -> None:
    golden = json.loads((data_dir() / "canary" / "numpy_draws.json").read_text(encoding="utf-8"))
    assert list(golden) == ["0", "7", "1007", "123456789"]
    assert [sorted(draws) for draws in golden.values()] == [sorted(canary._draws(0))] * 4
    assert golden["7"]["uniform"][:2] == [3.594680799395503, 6.247834559453361]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("uniform", lambda value: np.nextafter(value, 9.0)),
        ("integers", lambda value: value + 1),
        ("normal", lambda value: value * (1 + 1e-9)),
    ],
)
def test_a_kind_of_draw_that_moved_is_named(monkeypatch: pytest.MonkeyPatch, kind: str, change) -> None:
    honest = canary._draws

    def moved(seed: int) -> dict[str, list]:
        draws = honest(seed)
        return {**draws, kind: [change(draws[kind][0]), *draws[kind][1:]]}

    monkeypatch.setattr(canary, "_draws", moved)
    assert moved_draws() == (kind,)


def test_the_last_bit_of_a_tail_is_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = canary._draws
    monkeypatch.setattr(
        canary,
        "_draws",
        lambda seed: {**honest(seed), "lognormal": np.nextafter(honest(seed)["lognormal"], 9.0).tolist()},
    )
    assert moved_draws() == ()

"""A canary: if numpy changes its streams (its policy NEP 19 allows that), every seed means another scenario.

Where these tests fail, no other failure in this folder is news: pin numpy, and say so to users with libraries.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "numpy_draws.json").read_text(encoding="utf-8")
)
NAMES = ["flat", "increasing", "decreasing", "peaked", "valley"]


@pytest.mark.parametrize("seed", GOLDEN)
def test_numpy_draws_what_it_drew(seed: str) -> None:
    golden = GOLDEN[seed]

    def rng() -> np.random.Generator:
        return np.random.default_rng(int(seed))

    shuffled = np.arange(10)
    rng().shuffle(shuffled)
    found = {
        "uniform": rng().uniform(-2.5, 7.25, 8).tolist(),
        "integers": rng().integers(0, 10_000, 8).tolist(),
        "choice": rng().choice([32, 64, 128], 12).tolist(),
        "choice_of_names": [str(rng().choice(NAMES))],
        "random": rng().random(8).tolist(),
        "shuffle": shuffled.tolist(),
    }
    assert found == {name: golden[name] for name in found}
    # The tails of these go through exp, whose last bit is the processor's.
    assert rng().normal(0, 1, 8).tolist() == pytest.approx(golden["normal"], rel=1e-13)
    assert rng().lognormal(0.5, 0.25, 8).tolist() == pytest.approx(golden["lognormal"], rel=1e-13)


@pytest.mark.parametrize("seed", GOLDEN)
def test_kinds_of_draws_share_one_stream(seed: str) -> None:
    rng = np.random.default_rng(int(seed))
    found: list[float] = []
    for _ in range(3):
        found += [
            float(rng.uniform(500, 1200)),
            int(rng.integers(0, 10_000)),
            int(rng.choice([32, 64, 128])),
            float(rng.random()),
        ]
    assert found == GOLDEN[seed]["one_by_one"]

"""Does numpy still draw what it drew when seeds got their meaning?

Its policy on random numbers (NEP 19) lets a new version change what a generator gives. `data/canary/numpy_draws.json`
has raw draws of numpy 2.4.6: where they differ, every other difference between scenarios has its cause.
"""

import json
import math
from typing import Any

import numpy as np

from scenario_lib._parsing import data_dir

_NAMES = ["flat", "increasing", "decreasing", "peaked", "valley"]

# The tails of these go through exp, whose last bit is the processor's.
_CLOSE = frozenset({"normal", "lognormal"})
_CLOSE_REL = 1e-13


def moved_draws() -> tuple[str, ...]:
    """Kinds of draws ("uniform", "choice", ...) in which this numpy differs from the recorded ones; empty if none."""
    golden = json.loads((data_dir() / "canary" / "numpy_draws.json").read_text(encoding="utf-8"))
    drawn = {seed: _draws(int(seed)) for seed in golden}
    return tuple(
        kind
        for kind in next(iter(drawn.values()))
        if any(not _equal(kind, drawn[seed][kind], golden[seed][kind]) for seed in golden)
    )


def _equal(kind: str, drawn: list[Any], golden: list[Any]) -> bool:
    if kind in _CLOSE:
        return all(math.isclose(a, b, rel_tol=_CLOSE_REL) for a, b in zip(drawn, golden, strict=True))
    return drawn == golden


def _draws(seed: int) -> dict[str, list[Any]]:
    """Some draws of each kind, each from the beginning of the seed's stream; the last kind mixes them."""

    def rng() -> np.random.Generator:
        return np.random.default_rng(seed)

    shuffled = np.arange(10)
    rng().shuffle(shuffled)
    return {
        "uniform": rng().uniform(-2.5, 7.25, 8).tolist(),
        "integers": rng().integers(0, 10_000, 8).tolist(),
        "choice": rng().choice([32, 64, 128], 12).tolist(),
        "choice_of_names": [str(rng().choice(_NAMES))],
        "random": rng().random(8).tolist(),
        "shuffle": shuffled.tolist(),
        "normal": rng().normal(0, 1, 8).tolist(),
        "lognormal": rng().lognormal(0.5, 0.25, 8).tolist(),
        "one_by_one": _one_by_one(rng()),
    }


def _one_by_one(rng: np.random.Generator) -> list[float]:
    """Kinds of draws that take turns, as a scenario's do."""
    drawn: list[float] = []
    for _ in range(3):
        drawn += [
            float(rng.uniform(500, 1200)),
            int(rng.integers(0, 10_000)),
            int(rng.choice([32, 64, 128])),
            float(rng.random()),
        ]
    return drawn

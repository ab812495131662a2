"""Every byte of a library counts: truncations and flipped bits anywhere are found, and never pass as good data.

The build log is left out: no digest covers it. The number of cases is that of the assertions; set
SCENARIO_LIB_CORRUPTIONS to look at more of them.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from library_samples import fix_digests, sample_traces, write_sample

from scenario_lib.errors import LibraryError, ScenarioLibError
from scenario_lib.library.layout import CANDIDATES, DIGESTED, DIGESTS, METADATA, RESOLVED, TRACES
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import Recipe
from scenario_lib.scenario.randomize import randomize_scenario
from scenario_lib.validation.findings import Grade
from scenario_lib.validation.validate import ReplayOptions, validate_library

SEEDS = [7, 1007]
CASES = int(os.environ.get("SCENARIO_LIB_CORRUPTIONS", "20"))
FILES = [*DIGESTED, DIGESTS]


@pytest.fixture(scope="module")
def whole(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample(tmp_path_factory.mktemp("whole") / "library", [(recipe, SEEDS)])


@pytest.fixture(scope="module")
def damaged(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy to damage; who damages a file restores it."""
    return Path(shutil.copytree(whole, tmp_path_factory.mktemp("damaged") / "library"))


def spread(content: bytes, count: int) -> Iterator[bytes]:
    """Truncations and single flipped bits: both ends densely, the middle at random."""
    rng = np.random.default_rng(len(content))
    last = len(content) - 1
    for keep in {0, 1, last, *map(int, rng.integers(0, len(content), count // 4))}:
        yield content[:keep]
    ends = [*range(8), *range(last - 8, last + 1)]
    for position in [*ends, *map(int, rng.integers(0, len(content), count))]:
        flipped = bytearray(content)
        flipped[position] ^= 1 << int(rng.integers(8))
        yield bytes(flipped)


def use_everything(path: Path) -> Counter[str]:
    """Read all that a library offers; what is read must be what was written, what cannot be read one line of ours."""
    try:
        library = ScenarioLibrary(path)
    except LibraryError as error:
        assert "\n" not in str(error)
        return Counter(refused=1)
    assert [record.seed for record in library] == SEEDS
    seen: Counter[str] = Counter()
    for what, expected in uses(library):
        try:
            assert what() == expected
            seen["good"] += 1
        except ScenarioLibError as error:
            assert "\n" not in str(error)
            assert str(path) in str(error)
            seen["refused"] += 1
    return seen


def uses(library: ScenarioLibrary) -> Iterator[tuple[Callable[[], object], object]]:
    """What a library offers, and what it must give."""
    yield lambda: library.candidates.column("seed").to_pylist(), [*SEEDS, 999_007]
    for record in library:
        recipe = library.recipe_of(record)
        drawn = randomize_scenario(record.seed, experiment=recipe.experiment, settings=recipe.settings)
        baseline, ofo = sample_traces(record.seed)
        yield partial(library.materialize, record), drawn
        yield partial(library.materialize, record, from_numbers=True), drawn
        yield partial(lambda record: record.baseline_voltage_pen_per_step.tolist(), record), baseline.tolist()
        yield partial(lambda record: record.ofo_voltage_pen_per_step.tolist(), record), ofo.tolist()


@pytest.mark.parametrize("name", FILES)
def test_every_truncation_and_every_flipped_bit_is_found(whole: Path, damaged: Path, name: str) -> None:
    content = (whole / name).read_bytes()
    cases = [case for case in spread(content, CASES) if case != content]
    seen: Counter[str] = Counter()
    for case in cases:
        (damaged / name).write_bytes(case)
        try:
            report = validate_library(damaged, ReplayOptions())
            assert report.grade is Grade.DIFFERS
            assert any(str(damaged / name) in finding.message for finding in report.findings) or name == DIGESTS
            seen["found by validate"] += 1
        except LibraryError:
            seen["not opened"] += 1
        seen += use_everything(damaged)
    (damaged / name).write_bytes(content)
    assert seen["found by validate"] + seen["not opened"] == len(cases) >= CASES
    assert (seen["not opened"] == len(cases)) is (name == METADATA)
    print(f"{name}: {len(cases)} cases, {dict(seen)}")


@settings(
    max_examples=CASES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    name=st.sampled_from([METADATA, RESOLVED, CANDIDATES, TRACES]),
    where=st.floats(0, 1, exclude_max=True),
    patch=st.binary(min_size=1, max_size=12),
)
def test_a_patch_whose_digest_was_corrected_never_crashes(
    whole: Path, damaged: Path, name: str, where: float, patch: bytes
) -> None:
    """Some bytes overwritten anywhere and `digests.json` corrected: one line of ours, or values that make sense."""
    content = bytearray((whole / name).read_bytes())
    start = int(where * len(content))
    content[start : start + len(patch)] = patch
    try:
        (damaged / name).write_bytes(content)
        fix_digests(damaged)
        try:
            report = validate_library(damaged, ReplayOptions())
            assert all("\n" not in finding.message for finding in report.findings)
            for record in ScenarioLibrary(damaged, from_numbers=True):
                _ = record.kind, repr(record), record.ofo_voltage_pen_per_step
        except ScenarioLibError as error:
            assert "\n" not in str(error)
            assert str(damaged) in str(error)
    finally:
        for each in (name, DIGESTS):
            shutil.copy(whole / each, damaged / each)


def test_the_whole_library_holds(whole: Path) -> None:
    """What the other tests damage is good before."""
    assert validate_library(whole, ReplayOptions()).findings == ()
    assert use_everything(whole) == Counter(good=9)

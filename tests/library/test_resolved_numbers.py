"""Scenarios made of stored numbers: the very scenario that was screened, labelled, or one line."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from library_samples import edit_metadata, fix_digests, write_sample

from scenario_lib._files import canonical_json, digest_of
from scenario_lib.errors import LibraryError, ReplayError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.candidates import read_table, write_table
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import Recipe
from scenario_lib.library.views import LibraryView
from scenario_lib.scenario.canary import moved_draws
from scenario_lib.scenario.model import Scenario, resolve, scenario_digest
from scenario_lib.scenario.settings import RandomizationSettings

# Everything that can be drawn is: ramps up and down, overlays, shifts, warps, sampled shapes, clouds and noise.
WIDE = RandomizationSettings.from_openg2g(
    {
        **{"pv_t_shift_max_s": 300.0, "tvl_t_shift_max_s": 300.0, "pv_warp_min": 0.8, "tvl_warp_max": 1.2},
        **{"overlay_prob": 0.5, "overlay_intensity_min": 0.8, "n_ramps_per_site_choices": [0, 1, 3]},
        **{"ramp_up_prob": 0.4, "randomize_pv_profile": True, "randomize_tvl_profile": True},
    }
)
NARROW = RandomizationSettings(randomization_profile=False)
SEEDS = [7, 1007, 2007, 3007, 4007]
T_S = np.arange(3600.0)


def bits(scenario: Scenario) -> bytes:
    """Every power of every second, bit for bit."""
    elements = (*scenario.pv_systems, *scenario.tvl)
    return b"".join(element.kw_per_phase(T_S).tobytes() for element in elements)


@pytest.fixture
def moved_stream(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Make numpy draw otherwise, as a new version may."""

    def move() -> None:
        def other(seed: int | None = None) -> np.random.Generator:
            return np.random.Generator(np.random.MT19937(seed))

        monkeypatch.setattr(np.random, "default_rng", other)

    return move


@pytest.mark.parametrize("settings", [RandomizationSettings(), NARROW, WIDE], ids=["default", "narrow", "wide"])
@pytest.mark.parametrize("feeder", ["ieee13", "ieee34", "ieee123"])
def test_the_very_scenario_comes_back(
    feeder: str, settings: RandomizationSettings, tmp_path: Path, moved_stream: Callable[[], None]
) -> None:
    recipe = Recipe(load_experiment(feeder), settings)
    library = ScenarioLibrary(write_sample(tmp_path / "library", [(recipe, SEEDS)]))
    drawn = [library.materialize(record) for record in library]
    assert {scenario.origin for scenario in drawn} == {"drawn"}
    moved_stream()
    for record, scenario in zip(library, drawn, strict=True):
        made = library.materialize(record, from_numbers=True)
        assert made == scenario
        assert scenario_digest(made) == scenario_digest(scenario)
        assert resolve(made) == resolve(scenario)
        assert bits(made) == bits(scenario)
        assert made.origin == "stored numbers"
        assert "stored numbers" in repr(made)


def test_a_users_own_series_comes_back(village, tmp_path: Path) -> None:
    library = ScenarioLibrary(write_sample(tmp_path / "library", [(Recipe(village, WIDE), SEEDS)]))
    for record in library:
        drawn, made = library.materialize(record), library.materialize(record, from_numbers=True)
        assert made == drawn
        assert bits(made) == bits(drawn)


def test_without_numbers_a_moved_stream_is_refused(library_path: Path, moved_stream: Callable[[], None]) -> None:
    moved_stream()
    assert {"uniform", "integers", "choice", "random"} <= set(moved_draws())
    library = ScenarioLibrary(library_path)
    with pytest.raises(ReplayError, match="seed 7 cannot be replayed: what is drawn now is not what was screened"):
        library.materialize(library[0])


def test_a_library_can_be_opened_to_give_stored_numbers(library_path: Path, moved_stream: Callable[[], None]) -> None:
    drawn = [ScenarioLibrary(library_path).materialize(record) for record in ScenarioLibrary(library_path)]
    moved_stream()
    library = ScenarioLibrary(library_path, from_numbers=True)
    assert repr(library).endswith("3 under; from stored numbers)")
    assert [library.materialize(record) for record in library] == drawn
    assert [LibraryView(library).materialize(record) for record in library] == drawn
    travelled = pickle.loads(pickle.dumps(library))
    assert [travelled.materialize(record).origin for record in travelled] == ["stored numbers"] * 3
    with pytest.raises(ReplayError):
        library.materialize(library[0], from_numbers=False)


def test_a_pickled_library_carries_no_table(library_path: Path) -> None:
    library = ScenarioLibrary(library_path, from_numbers=True)
    before = len(pickle.dumps(library))
    library.materialize(library[0])
    assert abs(len(pickle.dumps(library)) - before) < 200


def test_openg2gs_library_has_no_stored_numbers(openg2g_path: Path) -> None:
    with pytest.raises(LibraryError, match="has no stored numbers, as scenario-lib did not write it"):
        ScenarioLibrary(openg2g_path, from_numbers=True)
    library = ScenarioLibrary(openg2g_path)
    with pytest.raises(LibraryError, match="has no stored numbers, as scenario-lib did not write it"):
        library.materialize(library[0], from_numbers=True)


def change_numbers(path: Path, index: int, change: Callable[[dict[str, Any]], Any], honest: bool = False) -> None:
    """Edit the numbers of one record; `honest` corrects the digests in the table and of the file, not the record's."""
    schema = pq.read_schema(path / "resolved.parquet")
    rows = read_table(path / "resolved.parquet", schema).to_pylist()
    numbers = json.loads(rows[index]["resolved"])
    changed = change(numbers)
    numbers = numbers if changed is None else changed
    rows[index]["resolved"] = canonical_json(numbers)
    if honest:
        rows[index]["scenario_digest"] = digest_of(numbers)
    write_table(path / "resolved.parquet", pa.Table.from_pylist(rows, schema=schema))
    fix_digests(path)


@pytest.mark.parametrize("honest", [False, True])
def test_edited_numbers_are_refused(library_path: Path, honest: bool) -> None:
    change_numbers(library_path, 1, lambda numbers: numbers["params"].update(pv_scale=1.25) or numbers, honest)
    library = ScenarioLibrary(library_path, from_numbers=True)
    library.materialize(library[0])
    with pytest.raises(LibraryError, match=r"resolved.parquet: the stored numbers of seed 1007 are not those that"):
        library.materialize(library[1])


def test_numbers_of_another_record_are_refused(library_path: Path) -> None:
    schema = pq.read_schema(library_path / "resolved.parquet")
    rows = read_table(library_path / "resolved.parquet", schema).to_pylist()
    write_table(library_path / "resolved.parquet", pa.Table.from_pylist(rows[::-1][:2], schema=schema))
    fix_digests(library_path)
    library = ScenarioLibrary(library_path, from_numbers=True)
    with pytest.raises(LibraryError, match="the stored numbers of seed 7 are not those that were screened"):
        library.materialize(library[0])
    assert library.materialize(library[1]).seed == 1007
    with pytest.raises(LibraryError, match="the stored numbers of seed 2007 are missing"):
        library.materialize(library[2])


HOSTILE: list[Callable[[dict[str, Any]], Any]] = [
    lambda numbers: {},
    lambda numbers: [1],
    lambda numbers: numbers.pop("params") and None,
    lambda numbers: numbers.update(site_order=["nowhere"]),
    lambda numbers: numbers.update(site_order=5),
    lambda numbers: numbers.update(pv_power_factors=[]),
    lambda numbers: numbers.update(dc_sites=[]),
    lambda numbers: numbers["tvl"][0].update(profile_kind="random_shape"),
    lambda numbers: numbers["pv_systems"][0].update(profile_kind="random_flat", profile_params={"clouds": 5}),
    lambda numbers: next(iter(numbers["dc_sites"].values())).update(base_kw_per_phase=-1),
    lambda numbers: next(iter(numbers["dc_sites"].values())).update(models=[]),
    lambda numbers: numbers["params"]["training_overlay"].update(n_gpus="many"),
    lambda numbers: numbers["params"].update(surprise=1),
]


@pytest.mark.parametrize("edit", HOSTILE, ids=range(len(HOSTILE)))
def test_numbers_that_are_no_scenario_are_one_line(library_path: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    """All digests corrected, the record's too: what is left is the meaning."""
    change_numbers(library_path, 0, edit, honest=True)
    digest = pq.read_table(library_path / "resolved.parquet").column("scenario_digest")[0].as_py()
    edit_metadata(library_path, lambda metadata: metadata["proofs"][0].update(scenario_digest=digest))
    library = ScenarioLibrary(library_path, from_numbers=True)
    with pytest.raises(LibraryError) as caught:
        library.materialize(library[0])
    assert str(caught.value).startswith(f"{library_path / 'resolved.parquet'}: the stored numbers of seed 7 ")
    assert "\n" not in str(caught.value)

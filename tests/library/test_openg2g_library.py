"""The library that openg2g's example wrote: loaded, materialised by the contract, and refused where it was edited."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scenario_lib.errors import LibraryError, ReplayError, ScenarioLibError, UnknownNameError
from scenario_lib.library.library import ScenarioLibrary

DATA = Path(__file__).parents[1] / "data"


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    metadata = json.loads((path / "metadata.json").read_text())
    change(metadata)
    (path / "metadata.json").write_text(json.dumps(metadata))


def test_it_loads_and_says_what_is_inside(openg2g_path: Path) -> None:
    library = ScenarioLibrary(openg2g_path)
    assert repr(library) == f"ScenarioLibrary({str(openg2g_path)!r}: 3 scenarios on ieee13; 3 under)"
    assert [record.seed for record in library] == [7, 2007, 6007]
    assert library[0].recovery_frac == 0.9882843706618677
    assert library[0].randomize_ramps is None
    assert library.config["n_candidates"] == 8


def test_it_has_no_digests(openg2g_path: Path) -> None:
    library = ScenarioLibrary(openg2g_path)
    assert library.contents.digests == {}
    assert [record.digests for record in library] == [None] * 3


def test_its_scenarios_are_those_of_the_contract(openg2g_path: Path) -> None:
    """Compared with scenarios that a reference implementation drew, by their SHA-256."""
    golden = json.loads((DATA / "scenarios.json").read_text())["ieee13/build_default"]["sha256"]
    library = ScenarioLibrary(openg2g_path)
    for record in library:
        drawn = json.dumps(library.materialize(record).to_dict(), sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(drawn.encode()).hexdigest() == golden[str(record.seed)]


def test_its_traces_are_read(openg2g_path: Path) -> None:
    library = ScenarioLibrary(openg2g_path)
    with np.load(openg2g_path / "traces.npz") as stored:
        for index, record in enumerate(library):
            assert np.array_equal(record.ofo_voltage_pen_per_step, stored[f"ofo_{index}"])
            assert np.array_equal(record.baseline_voltage_pen_per_step, stored[f"baseline_{index}"])
            assert np.count_nonzero(record.baseline_voltage_pen_per_step) == record.baseline_violation_time_s


def test_what_we_write_is_accepted_field_by_field(openg2g_path: Path, library_path: Path) -> None:
    """The example makes `ScenarioRecord(**fields)`, which takes exactly its own fields."""
    theirs = json.loads((openg2g_path / "metadata.json").read_text())
    accepted = make_dataclass("ScenarioRecord", list(theirs["scenarios"][0]))
    ours = json.loads((library_path / "metadata.json").read_text())
    assert [accepted(**entry).seed for entry in ours["scenarios"]] == [7, 1007, 2007]
    assert set(ours["config"]) == set(theirs["config"])
    assert set(ours["config"]["randomize_kwargs"]) == set(theirs["config"]["randomize_kwargs"])
    with np.load(library_path / "traces.npz") as traces:
        assert set(traces) == {f"{name}_{i}" for name in ("ofo", "baseline") for i in range(3)}
        assert {trace.dtype.str for trace in traces.values()} == {"<f8"}
        assert {trace.shape for trace in traces.values()} == {(3600,)}


def test_the_same_settings_give_the_same_records(openg2g_path: Path, library_path: Path) -> None:
    ours, theirs = ScenarioLibrary(library_path), ScenarioLibrary(openg2g_path)
    for seed in (7, 2007):
        assert ours.materialize(ours.record_for(seed)) == theirs.materialize(theirs.record_for(seed))


@pytest.mark.parametrize(
    ("field", "value"),
    [("seed", 8), ("pv_scale", 1.0), ("load_scale", 0.5), ("training_overlay", None), ("training_overlay", "none")],
)
def test_an_edited_draw_is_refused(openg2g_path: Path, field: str, value: object) -> None:
    edit(openg2g_path, lambda metadata: metadata["scenarios"][1].update({field: value}))
    with pytest.raises((ReplayError, LibraryError)) as caught:
        library = ScenarioLibrary(openg2g_path)
        library.materialize(library[1])
    assert str(openg2g_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_library_merged_from_other_settings_is_refused(openg2g_path: Path) -> None:
    edit(openg2g_path, lambda metadata: metadata["config"]["randomize_kwargs"].update(load_scale_max=1.5))
    library = ScenarioLibrary(openg2g_path)
    with pytest.raises(ReplayError, match="seed 7 cannot be replayed: load_scale.*merged from several settings"):
        library.materialize(library[0])


def test_an_unknown_system_names_the_known_ones(openg2g_path: Path) -> None:
    edit(openg2g_path, lambda metadata: metadata["config"].update(system="ieee8500"))
    with pytest.raises(UnknownNameError, match="'ieee8500' is not known; expected one of ieee123, ieee13, ieee34"):
        ScenarioLibrary(openg2g_path)


def test_without_settings_it_is_refused_as_by_openg2g(openg2g_path: Path) -> None:
    edit(openg2g_path, lambda metadata: metadata["config"].pop("randomize_kwargs"))
    with pytest.raises(LibraryError, match="config has no 'randomize_kwargs'"):
        ScenarioLibrary(openg2g_path)


def test_random_damage_is_an_error_of_ours_or_nothing_that_matters(openg2g_path: Path) -> None:
    """Values replaced all over the metadata: opening and materialising give a scenario or one line."""
    path = openg2g_path / "metadata.json"
    original = json.loads(path.read_text())
    rng = np.random.default_rng(11)
    oddities = [None, True, -1, 10**400, 1.5, "", "x", [], {}, [[]], "../..", {"a": 1}]
    refused = 0
    for _ in range(400):
        metadata = json.loads(json.dumps(original))
        place: Any = metadata
        while isinstance(place, dict | list) and place:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = keys[int(rng.integers(len(keys)))]
            child = place[key]
            if not isinstance(child, dict | list) or not child or rng.random() < 0.15:
                place[key] = oddities[int(rng.integers(len(oddities)))]
                break
            place = child
        path.write_text(json.dumps(metadata))
        try:
            library = ScenarioLibrary(openg2g_path)
            repr(library)
            for record in library:
                repr(record)
                library.materialize(record)
        except ScenarioLibError as error:
            refused += 1
            assert "\n" not in str(error)
            assert str(openg2g_path) in str(error)
    assert refused > 150

"""Merging keeps every record as it was, and no scenario twice; the order of libraries does not matter."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from combined_samples import FIXED, PLAIN, SAME_DRAWS, SUNNY, content, seeds_between, write_combined
from library_samples import SCREENING, edit_metadata, fix_digests

from scenario_lib.errors import BuildRefusedError, InvalidSettingError, LibraryError, ReplayError
from scenario_lib.library.combine import merge_libraries
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import StratumEntry

OPENG2G = Path(__file__).parents[1] / "data" / "openg2g_library_ieee13"


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Seeds 7 to 3007 plain; 2007 to 5007 sunny; 3007 to 4007 plain, with one more rejected."""
    folder = tmp_path_factory.mktemp("libraries")
    return [
        write_combined(folder / "a", [(PLAIN, seeds_between(0, 4))], rejected=[9007]),
        write_combined(folder / "b", [(SUNNY, seeds_between(2, 6))], rejected=[8007]),
        write_combined(folder / "c", [(PLAIN, seeds_between(3, 5))], rejected=[7]),
    ]


def test_every_record_keeps_its_recipe_fields_traces_and_proof(libraries: list[Path], tmp_path: Path) -> None:
    report = merge_libraries(libraries, tmp_path / "merged")
    merged = ScenarioLibrary(tmp_path / "merged")
    assert [(record.seed, record.digests.recipe) for record in merged] == sorted(
        [(seed, PLAIN.id) for seed in seeds_between(0, 5)] + [(seed, SUNNY.id) for seed in seeds_between(2, 6)]
    )
    sources = {(r.seed, r.digests.recipe): r for path in libraries for r in ScenarioLibrary(path)}
    for record in merged:
        source = sources[record.seed, record.digests.recipe]
        assert record.contract() == source.contract()
        assert record.digests == source.digests
        assert record.baseline_voltage_pen_per_step.tobytes() == source.baseline_voltage_pen_per_step.tobytes()
        assert merged.materialize(record).seed == record.seed
        assert merged.stored_numbers(record)["seed"] == record.seed
    assert (report.records, report.candidates) == (9, 11)
    assert report.recipes == dict(sorted([(PLAIN.id, 5), (SUNNY.id, 4)]))


def test_the_report_says_what_was_dropped(libraries: list[Path], tmp_path: Path) -> None:
    """Seed 3007 is in two libraries; seed 7 was rejected in the third, and is accepted in the first."""
    report = merge_libraries(libraries, tmp_path / "merged")
    assert sum(source.dropped_records for source in report.sources) == 1
    assert sum(source.dropped_candidates for source in report.sources) == 2
    assert report.sources[2].dropped_candidates >= 1
    assert report.differing == ()
    assert json.loads(json.dumps(report.to_dict()))["records"] == 9
    assert report.lines()[-1] == f"library             {tmp_path / 'merged'}"


def test_the_order_of_libraries_changes_no_byte(libraries: list[Path], tmp_path: Path) -> None:
    merge_libraries(libraries, tmp_path / "one")
    merge_libraries(libraries[::-1], tmp_path / "other")
    assert content(tmp_path / "one") == content(tmp_path / "other")


def test_merging_in_two_steps_gives_what_merging_at_once_gives(libraries: list[Path], tmp_path: Path) -> None:
    merge_libraries(libraries, tmp_path / "once")
    merge_libraries(libraries[1:], tmp_path / "first")
    merge_libraries([tmp_path / "first", libraries[0]], tmp_path / "second")
    assert content(tmp_path / "once") == content(tmp_path / "second")


def test_a_library_merged_with_itself_stays_as_it_is(libraries: list[Path], tmp_path: Path) -> None:
    merge_libraries([libraries[0], libraries[0]], tmp_path / "merged")
    assert content(tmp_path / "merged") == content(libraries[0])


def test_equal_scenarios_of_two_recipes_are_duplicates(libraries: list[Path], tmp_path: Path) -> None:
    other = write_combined(tmp_path / "other", [(SAME_DRAWS, seeds_between(0, 2))])
    report = merge_libraries([libraries[0], other], tmp_path / "merged")
    merged = ScenarioLibrary(tmp_path / "merged")
    assert sorted(record.seed for record in merged) == seeds_between(0, 4)
    assert sum(source.dropped_records for source in report.sources) == 2


def test_equal_seeds_of_different_scenarios_both_stay(libraries: list[Path], tmp_path: Path) -> None:
    merge_libraries(libraries[:2], tmp_path / "merged")
    seeds = [record.seed for record in ScenarioLibrary(tmp_path / "merged")]
    assert seeds.count(2007) == 2


def test_a_duplicate_with_other_figures_is_said(libraries: list[Path], tmp_path: Path) -> None:
    other = write_combined(tmp_path / "other", [(PLAIN, [7])], engine="compiled")
    report = merge_libraries([other, libraries[0]], tmp_path / "merged")
    assert report.differing == (7,)
    assert "1 duplicates had other figures, such as seed 7" in "\n".join(report.lines())
    assert ScenarioLibrary(tmp_path / "merged").record_for(7).digests.engine == "reference"


def test_bands_of_several_screenings_are_all_stated(libraries: list[Path], tmp_path: Path) -> None:
    wide = {**SCREENING, "min_recovery_frac": 0.3, "min_baseline_integral": 0.5}
    other = write_combined(tmp_path / "other", [(PLAIN, [6007])], screening=wide)
    merge_libraries([libraries[0], other], tmp_path / "merged")
    contents = ScenarioLibrary(tmp_path / "merged").contents
    assert contents.strata == (StratumEntry(PLAIN.id, SCREENING), StratumEntry(PLAIN.id, wide))
    assert contents.screening == {**SCREENING, "min_recovery_frac": 0.3, "min_baseline_integral": 0.2}
    assert contents.screening_of(PLAIN.id) == contents.screening
    merge_libraries([tmp_path / "merged", other], tmp_path / "again")
    assert content(tmp_path / "again") == content(tmp_path / "merged")


def test_versions_and_reproducibility_of_all_are_kept(libraries: list[Path], tmp_path: Path) -> None:
    other = write_combined(tmp_path / "other", [(PLAIN, [6007])], versions={"numpy": "2.1"}, reproducible=False)
    merge_libraries([libraries[0], other], tmp_path / "merged")
    contents = ScenarioLibrary(tmp_path / "merged").contents
    assert contents.versions == {"numpy": "2.0, 2.1"}
    assert contents.reproducible is False


def test_what_does_not_replay_stops_the_merge_and_is_named(libraries: list[Path], tmp_path: Path) -> None:
    other = write_combined(tmp_path / "other", [(PLAIN, [6007])])
    edit_metadata(other, lambda metadata: metadata["scenarios"][0].update(pv_scale=1.0))
    with pytest.raises(ReplayError) as caught:
        merge_libraries([libraries[0], other], tmp_path / "merged")
    assert str(caught.value).startswith(f"{other}: seed 6007 does not replay, so nothing was written: ")
    assert "pv_scale" in str(caught.value)
    assert not (tmp_path / "merged").exists()
    assert not (tmp_path / ".merged.new").exists()


def test_a_damaged_trace_stops_the_merge(libraries: list[Path], tmp_path: Path) -> None:
    other = write_combined(tmp_path / "other", [(PLAIN, [6007])])
    damaged = bytearray((other / "traces.npz").read_bytes())
    damaged[5000] ^= 1
    (other / "traces.npz").write_bytes(damaged)
    fix_digests(other)
    with pytest.raises(LibraryError, match=r"traces.npz"):
        merge_libraries([libraries[0], other], tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_a_library_without_digests_is_refused_with_the_seeds_to_build_again(
    libraries: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(LibraryError) as caught:
        merge_libraries([libraries[0], OPENG2G], tmp_path / "merged")
    assert "has no digests" in str(caught.value)
    assert "--seeds 7,2007" in str(caught.value)


def test_an_edited_recipe_is_noticed(libraries: list[Path], tmp_path: Path) -> None:
    other = write_combined(tmp_path / "other", [(FIXED, [6007])])
    edit_metadata(other, lambda m: m["recipes"][FIXED.id]["data"].update(models="forged"))
    with pytest.raises(LibraryError, match="is not there, or was edited"):
        merge_libraries([libraries[0], other], tmp_path / "merged")


def test_rows_unlike_the_records_are_noticed(libraries: list[Path], tmp_path: Path) -> None:
    rows = ScenarioLibrary(libraries[0]).candidates.to_pylist()
    assert [row["accepted"] for row in rows] == [True] * 4 + [False]
    other = write_combined(tmp_path / "other", [(PLAIN, [6007])])
    edit_metadata(other, lambda m: (m["scenarios"].clear(), m["proofs"].clear()))
    with pytest.raises(LibraryError, match="the library is empty"):
        merge_libraries([libraries[0], other], tmp_path / "merged")


def test_fewer_than_two_and_taken_places_are_refused(libraries: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match="found 1; expected two or more"):
        merge_libraries(libraries[:1], tmp_path / "merged")
    merge_libraries(libraries, tmp_path / "merged")
    with pytest.raises(BuildRefusedError, match="exists already; replace it with --overwrite"):
        merge_libraries(libraries, tmp_path / "merged")
    merge_libraries(libraries[:2], tmp_path / "merged", overwrite=True)
    assert len(ScenarioLibrary(tmp_path / "merged")) == 8
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "a.txt").write_text("mine")
    with pytest.raises(BuildRefusedError, match="is not a library, and is never overwritten"):
        merge_libraries(libraries, tmp_path / "thesis", overwrite=True)


def test_a_failed_candidate_and_its_measured_twin_are_one(tmp_path: Path) -> None:
    one = write_combined(tmp_path / "one", [(PLAIN, [7])])
    other = write_combined(tmp_path / "other", [(PLAIN, [1007])], rejected=[7])
    merge_libraries([other, one], tmp_path / "merged")
    rows = ScenarioLibrary(tmp_path / "merged").candidates.to_pylist()
    assert [(row["seed"], row["accepted"]) for row in rows] == [(7, True), (1007, True)]


def test_a_named_stratum_is_another_recipe_with_the_same_scenarios(tmp_path: Path) -> None:
    named = replace(PLAIN, stratum="evening")
    assert named.id != PLAIN.id
    folder = write_combined(tmp_path / "named", [(named, [7])])
    (read,) = ScenarioLibrary(folder).recipes.values()
    assert (read.stratum, read.id) == ("evening", named.id)


def test_two_feeders_are_named(tmp_path: Path) -> None:
    sources = [write_combined(tmp_path / recipe.experiment.name, [(recipe, [7, 1007])]) for recipe in (PLAIN, FIXED)]
    lines = merge_libraries(sources, tmp_path / "both").lines()
    assert any("2 feeders are in it: ieee13, ieee34" in line for line in lines)
    assert not any("feeders are in it" in line for line in merge_libraries(sources[:1] * 2, tmp_path / "one").lines())

"""Parts share neither a seed nor a scenario, are libraries that replay, and do not depend on order."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from combined_samples import FIXED, PLAIN, SUNNY, content, kind_at, seeds_between, write_combined

from scenario_lib.errors import BuildRefusedError, InvalidSettingError, LibraryError
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.split import Parts, content_digest, parse_parts, split_library

THREE = parse_parts("train=0.6,validation=0.2,test=0.2")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty plain records and thirty sunny ones, ten seeds of which are the same; twenty more seeds rejected."""
    pairs = [(PLAIN, seeds_between(0, 30)), (SUNNY, seeds_between(20, 50))]
    return write_combined(tmp_path_factory.mktemp("split") / "library", pairs, rejected=seeds_between(60, 80))


@pytest.fixture(scope="module")
def parts(library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, ScenarioLibrary]:
    out = tmp_path_factory.mktemp("parts") / "parts"
    split_library(library, out, THREE)
    return {name: ScenarioLibrary(out / name) for name in THREE.sizes}


def test_parts_hold_every_record_once_as_it_was(library: Path, parts: dict[str, ScenarioLibrary]) -> None:
    sources = {(r.seed, r.digests.recipe): r for r in ScenarioLibrary(library)}
    found = [(record.seed, record.digests.recipe) for part in parts.values() for record in part]
    assert sorted(found) == sorted(sources)
    for part in parts.values():
        for record in part:
            source = sources[record.seed, record.digests.recipe]
            assert (record.contract(), record.digests) == (source.contract(), source.digests)
            assert record.ofo_voltage_pen_per_step.tobytes() == source.ofo_voltage_pen_per_step.tobytes()
        assert part.materialize(part[0]).seed == part[0].seed


def test_parts_share_no_seed_not_even_of_rejected_candidates(parts: dict[str, ScenarioLibrary]) -> None:
    seeds = [set(part.candidates.column("seed").to_pylist()) for part in parts.values()]
    assert sum(map(len, seeds)) == len(set.union(*seeds)) == 70
    assert all(any(not row for row in part.candidates.column("accepted").to_pylist()) for part in parts.values())


def test_recipes_and_kinds_are_in_proportion(parts: dict[str, ScenarioLibrary]) -> None:
    assert [len(part) for part in parts.values()] == pytest.approx([36, 12, 12], abs=2)
    for recipe in (PLAIN.id, SUNNY.id):
        for kind in ("under", "over", "mixed"):
            records = [sum(r.digests.recipe == recipe and r.kind == kind for r in part) for part in parts.values()]
            assert sum(records) == 10
            assert records == pytest.approx([6, 2, 2], abs=3)


def test_the_same_split_again_and_another_seed(library: Path, parts, tmp_path: Path) -> None:
    split_library(library, tmp_path / "again", THREE)
    split_library(library, tmp_path / "other", THREE, seed=1)
    for name, part in parts.items():
        assert content(tmp_path / "again" / name) == content(part.path)
    assert content(tmp_path / "other" / "test") != content(parts["test"].path)


def test_scenarios_that_are_equal_but_for_the_seed_stay_together(tmp_path: Path) -> None:
    folder = write_combined(tmp_path / "library", [(FIXED, seeds_between(0, 40))])
    library = ScenarioLibrary(folder)
    digests = {record.seed: content_digest(library.materialize(record)) for record in library}
    assert len(set(digests.values())) < 40, "some are equal"
    split_library(folder, tmp_path / "parts", parse_parts("train=0.5,test=0.5"))
    train, test = ({digests[r.seed] for r in ScenarioLibrary(tmp_path / "parts" / n)} for n in ("train", "test"))
    assert not train & test


def test_numbers_of_records_leave_the_rest_out(library: Path, tmp_path: Path) -> None:
    single = write_combined(tmp_path / "single", [(PLAIN, seeds_between(0, 12))])
    reports = split_library(single, tmp_path / "parts", parse_parts("train=6,test=3"))
    assert [report.records for report in reports] == [6, 3, 3]
    assert reports[2].path is None
    assert reports[2].line.startswith("left out: 3 records (")
    assert json.loads(json.dumps(reports[0].to_dict()))["path"] == str(tmp_path / "parts" / "train")
    assert sum(reports[0].kinds.values()) == 6
    with pytest.raises(InvalidSettingError, match="at most the 12 records of the library"):
        split_library(single, tmp_path / "more", parse_parts("train=12,test=1"))


def test_a_part_without_records_is_refused(tmp_path: Path) -> None:
    folder = write_combined(tmp_path / "library", [(PLAIN, [7, 1007])])
    with pytest.raises(LibraryError, match="no record is left for part"):
        split_library(folder, tmp_path / "parts", THREE)
    assert not (tmp_path / "parts").exists()


def test_what_is_there_is_replaced_only_if_it_is_parts(tmp_path: Path) -> None:
    folder = write_combined(tmp_path / "library", [(PLAIN, seeds_between(0, 6))])
    halves = parse_parts("one=0.5,other=0.5")
    split_library(folder, tmp_path / "parts", halves)
    with pytest.raises(BuildRefusedError, match="exists already"):
        split_library(folder, tmp_path / "parts", halves)
    split_library(folder, tmp_path / "parts", parse_parts("whole=1.0"), overwrite=True)
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["whole"]
    assert content(tmp_path / "parts" / "whole") == content(folder)
    (tmp_path / "parts" / "thesis.txt").write_text("mine")
    with pytest.raises(BuildRefusedError, match="is not a library, and is never overwritten"):
        split_library(folder, tmp_path / "parts", halves, overwrite=True)


def test_parts_are_read_exactly() -> None:
    assert parse_parts("train=0.8, test=.2") == Parts({"train": Fraction(4, 5), "test": Fraction(1, 5)}, False)
    assert parse_parts("train=160,test=40") == Parts({"train": Fraction(160), "test": Fraction(40)}, True)
    assert parse_parts("train=0.5").shares(10) == {"train": Fraction(1, 2), "": Fraction(1, 2)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names with sizes"),
        ("train", "names with sizes"),
        ("train=0.8,train=0.2", "each name once"),
        ("../x=1", "names with sizes"),
        ("train=-1", "names with sizes"),
        ("train=1e3", "names with sizes"),
        ("train=0", "sizes above 0"),
        ("train=0.8,test=20", "all fractions (0.8) or all numbers of records (160)"),
        ("train=0.8,test=0.3", "fractions of 1 in all"),
    ],
)
def test_faulty_parts_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidSettingError) as caught:
        parse_parts(text)
    assert message in str(caught.value)


def test_kinds_of_the_samples() -> None:
    assert [kind_at(seed) for seed in (7, 1007, 2007, 3007)] == ["under", "over", "mixed", "under"]

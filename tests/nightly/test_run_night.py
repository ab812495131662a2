"""The steps of a night, with libraries that are written instead of simulated; the real thing is tested as a command."""

import datetime
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from library_samples import sample_row, write_rows

from scenario_lib.errors import BuildRefusedError, DataFileError, InvalidSettingError, MissingDataError, NightBusyError
from scenario_lib.feeders.experiment_file import load_experiment
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.library.recipe import Recipe
from scenario_lib.nightly import run
from scenario_lib.nightly.archive import NightFolders, RunArchive
from scenario_lib.nightly.config import NightPlan, read_nightly
from scenario_lib.nightly.run import Night, NightOutcome, NightReport, run_night
from scenario_lib.scenario.settings import RandomizationSettings
from scenario_lib.validation.findings import Finding, Grade
from scenario_lib.validation.validate import ValidationReport

FIRST, SECOND = datetime.date(2025, 3, 1), datetime.date(2025, 3, 2)
RECIPE = Recipe(load_experiment("ieee13"), RandomizationSettings())
LIMITS = "[limits]\nmax_lost = 0\nmax_flipped = 0\n"


class KilledError(BaseException):
    """Stands for a kill: nothing after it happens."""


@pytest.fixture
def plan(tmp_path: Path) -> Callable[..., NightPlan]:
    def write(extra: str = "", recipe: str = 'system = "ieee13"\n[candidates]\ncandidates = 3\n') -> NightPlan:
        (tmp_path / "recipe.toml").write_text(recipe, encoding="utf-8")
        config = tmp_path / "nightly.toml"
        config.write_text(f'root = "root"\nrecipe = "recipe.toml"\n{extra}', encoding="utf-8")
        return read_nightly(config)

    return write


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> dict[str, list]:
    """Builds that write these rows, and validations of this grade; change them to change the night."""
    state: dict[str, list] = {"rows": [sample_row(7, True), sample_row(1007, False)], "grades": [Grade.HELD] * 99}

    def build(_strata, options, _on_progress):
        shutil.rmtree(options.out, ignore_errors=True)
        write_rows(options.out, state["rows"], RECIPE)

    def validate(path, options):
        state["flips"] = [options.flips.records]
        grade = state["grades"].pop(0)
        findings = (Finding(grade, "seed 7 is not what it was"),)
        return ValidationReport(
            path=path, records=1, replayed=options.records, findings=findings, verdicts=(), from_numbers=False
        )

    monkeypatch.setattr(run, "build_strata", build)
    monkeypatch.setattr(run, "validate_library", validate)
    return state


def current_seeds(plan: NightPlan) -> list[int]:
    return [record.seed for record in ScenarioLibrary(plan.root / "current")]


@pytest.mark.usefixtures("written")
def test_a_night_that_passes_becomes_the_current_one(plan) -> None:
    report = run_night(Night(plan(), FIRST))
    assert report.outcome is NightOutcome.PUBLISHED
    assert (report.candidates, report.accepted, report.failed, report.against) == (2, 1, 0, None)
    assert (report.grade, report.reference_grade) == ("held", "held")
    assert (plan().root / "current").readlink() == Path("nights/2025-03-01")
    assert current_seeds(plan()) == [7]
    assert not (plan().root / "work").exists()
    stored = json.loads((plan().root / "nights" / "2025-03-01.json").read_text())
    assert stored == json.loads(json.dumps(report.to_dict()))


def test_a_night_is_compared_with_the_last_good_one(plan, written) -> None:
    run_night(Night(plan(), FIRST))
    written["rows"] = [sample_row(7, True), sample_row(1007, True)]
    report = run_night(Night(plan(), SECOND))
    assert report.outcome is NightOutcome.PUBLISHED
    assert (report.against, report.gained, report.lost, report.flipped) == (FIRST, 1, 0, 1)
    assert current_seeds(plan()) == [7, 1007]


def test_a_night_beyond_a_limit_is_kept_apart_and_the_pointer_stays(plan, written) -> None:
    run_night(Night(plan(LIMITS), FIRST))
    written["rows"] = [sample_row(2007, True)]
    report = run_night(Night(plan(LIMITS), SECOND))
    assert report.outcome is NightOutcome.TOO_DIFFERENT
    assert report.message == "records lost or changed: 1, over the limit 0"
    assert current_seeds(plan()) == [7]
    assert [record.seed for record in ScenarioLibrary(plan().root / "failed" / "2025-03-02")] == [2007]


def test_a_verdict_that_flips_counts(plan, written) -> None:
    flipping = replace(sample_row(1007, False), scenario_digest="d")
    written["rows"] = [sample_row(7, True), flipping]
    run_night(Night(plan(LIMITS), FIRST))
    written["rows"] = [sample_row(7, True), replace(flipping, reason="accepted")]
    report = run_night(Night(plan(LIMITS), SECOND))
    assert (report.outcome, report.flipped) == (NightOutcome.TOO_DIFFERENT, 1)


@pytest.mark.parametrize(
    ("grades", "outcome"),
    [
        ([Grade.HELD, Grade.WITHIN_TOLERANCE], NightOutcome.PUBLISHED),
        ([Grade.HELD, Grade.EXPLAINED], NightOutcome.PUBLISHED),
        ([Grade.DIFFERS], NightOutcome.NOT_VALID),
        ([Grade.HELD, Grade.DIFFERS], NightOutcome.NOT_VALID),
        ([Grade.NOT_VERIFIABLE], NightOutcome.NOT_VALID),
    ],
)
def test_only_a_night_that_holds_is_published(plan, written, grades: list[Grade], outcome: NightOutcome) -> None:
    written["grades"] = grades
    report = run_night(Night(plan(), FIRST))
    assert report.outcome is outcome
    assert (plan().root / "current").is_symlink() == (outcome is NightOutcome.PUBLISHED)
    if outcome is NightOutcome.NOT_VALID:
        assert "seed 7 is not what it was" in report.message


@pytest.mark.parametrize(("limits", "most"), [("", 1), ("[limits]\nmax_explained = 0\n", 0)])
def test_explained_flips_have_a_limit(plan, written, limits: str, most: int) -> None:
    run_night(Night(plan(limits), FIRST))
    assert written["flips"] == [most]


def test_too_few_accepted_and_too_many_failed_end_a_night(plan, written) -> None:
    report = run_night(Night(plan("[limits]\nmin_accepted = 2\n"), FIRST))
    assert (report.outcome, report.message) == (NightOutcome.BUILD_FAILED, "1 accepted, fewer than 2")
    written["rows"] = [sample_row(7, True), replace(sample_row(1007, False), reason="timeout")]
    report = run_night(Night(plan(), FIRST))
    assert (report.outcome, report.failed) == (NightOutcome.BUILD_FAILED, 1)


def test_whatever_a_build_raises_ends_in_a_report_and_its_work_is_kept(plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(_strata, options, _on_progress):
        (options.out.parent / "begun").write_text("", encoding="utf-8")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run, "build_strata", build)
    report = run_night(Night(plan(), FIRST))
    assert report.outcome is NightOutcome.BUILD_FAILED
    assert "No space left on device" in report.message
    assert (plan().root / "work" / "2025-03-01" / "begun").is_file()
    assert (plan().root / "failed" / "2025-03-01.json").is_file()


def test_a_build_begun_under_other_settings_is_begun_again(plan, monkeypatch: pytest.MonkeyPatch) -> None:
    resumes = []

    def build(_strata, options, _on_progress):
        resumes.append(options.resume)
        if options.resume:
            raise BuildRefusedError("started otherwise")
        write_rows(options.out, [sample_row(7, True)], RECIPE)

    monkeypatch.setattr(run, "build_strata", build)
    assert run_night(Night(plan("[replay]\nown = 0\nreference = 0\n"), FIRST)).accepted == 1
    assert resumes == [True, False]


@pytest.mark.usefixtures("written")
def test_a_night_that_is_published_is_left_alone(plan) -> None:
    run_night(Night(plan(), FIRST))
    report = run_night(Night(plan(), FIRST))
    assert (report.outcome, report.message, report.accepted) == (NightOutcome.PUBLISHED, "was published already", 1)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("days", [(FIRST, SECOND, FIRST), (SECOND, FIRST)], ids=["published", "new"])
def test_an_older_night_does_not_take_the_pointer_back(plan, days: tuple[datetime.date, ...]) -> None:
    for day in days:
        assert run_night(Night(plan("[keep]\ngood = 1\n"), day)).library.is_dir()
    assert NightFolders(plan().root).current() == SECOND


NO_NIGHTS = [
    "lost+found/",
    "README",
    "2025-03-01.txt",
    "20250228/",
    "2025-W09-5/",
    ".DS_Store",
    "2025-02-30/",
    "x.json",
]


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("shelf", ["nights", "failed", "work"])
@pytest.mark.parametrize("name", NO_NIGHTS)
def test_what_is_no_night_is_left_alone(plan, shelf: str, name: str) -> None:
    place = plan().root / shelf / name
    content = place / "thesis.txt" if name.endswith("/") else place
    content.parent.mkdir(parents=True)
    content.write_text("two years of work", encoding="utf-8")
    for day in (FIRST, SECOND):
        assert run_night(Night(plan("[keep]\ngood = 1\n"), day)).outcome is NightOutcome.PUBLISHED
    assert content.read_text(encoding="utf-8") == "two years of work"
    folders = NightFolders(plan().root)
    assert (folders.current(), folders.good.nights()) == (SECOND, [SECOND])


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("future", ["9999-01-01", "9999-12-31"])
def test_a_night_of_the_future_neither_counts_nor_takes_a_place(plan, future: str) -> None:
    (plan().root / "nights" / future).mkdir(parents=True)
    (plan().root / "current").symlink_to(f"nights/{future}")
    for day in (FIRST, SECOND):
        assert run_night(Night(plan("[keep]\ngood = 2\n"), day)).passed
    folders = NightFolders(plan().root)
    assert (folders.current(), folders.good.nights()) == (SECOND, [SECOND, FIRST])
    assert (plan().root / "nights" / future).is_dir()


@pytest.mark.usefixtures("written")
def test_a_night_of_the_future_is_refused(plan) -> None:
    with pytest.raises(InvalidSettingError, match="night: found 9999-01-01, which lies in the future"):
        run_night(Night(plan(), datetime.date(9999, 1, 1)))
    assert not plan().root.exists()
    tomorrow = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=1)
    assert run_night(Night(plan(), tomorrow)).passed


def _folder(place: Path, elsewhere: Path) -> None:
    shutil.copytree(elsewhere, place)


def _link(place: Path, elsewhere: Path) -> None:
    place.symlink_to(elsewhere)


def _file(place: Path, elsewhere: Path) -> None:
    shutil.copy(elsewhere / "thesis.txt", place)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("make", [_folder, _link, _file])
def test_a_pointer_made_by_hand_stays_and_is_named(plan, tmp_path: Path, make: Callable[[Path, Path], None]) -> None:
    elsewhere, pointer = tmp_path / "2025-01-01", plan().root / "current"
    elsewhere.mkdir()
    (elsewhere / "thesis.txt").write_text("two years of work", encoding="utf-8")
    plan().root.mkdir()
    make(pointer, elsewhere)
    before = pointer.stat()
    reports = [run_night(Night(plan(), day)) for day in (FIRST, SECOND)]
    assert [report.outcome for report in reports] == [NightOutcome.PUBLISHED] * 2
    assert all(f"{pointer} was not put there by a night and is left as it is" in report.message for report in reports)
    assert [report.against for report in reports] == [None, FIRST]
    assert pointer.stat() == before
    pointer.rename(tmp_path / "away")
    assert run_night(Night(plan(), SECOND)).message == "was published already"
    assert current_seeds(plan()) == [7]


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_a_pointer_that_somebody_moved_to_another_night_is_followed(plan, relative: bool) -> None:
    run_night(Night(plan(), FIRST))
    folders = NightFolders(plan().root)
    folders.pointer.unlink()
    folders.pointer.symlink_to("nights/2025-03-01" if relative else folders.good.library(FIRST).resolve())
    assert run_night(Night(plan(), SECOND)).against == FIRST
    assert folders.pointer.readlink() == Path("nights/2025-03-02")


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize(
    ("shelf", "name"), [("nights", "2025-03-01"), ("failed", "2025-03-01"), ("nights", "2025-03-01.json/")]
)
def test_a_place_that_something_else_takes_is_refused(plan, shelf: str, name: str) -> None:
    place = plan().root / shelf / name
    place.parent.mkdir(parents=True)
    place.mkdir() if name.endswith("/") else place.write_text("two years of work", encoding="utf-8")
    with pytest.raises(BuildRefusedError, match="is not what a night writes there"):
        run_night(Night(plan(), FIRST))
    assert place.exists()


@pytest.mark.usefixtures("written")
def test_a_night_that_lies_elsewhere_stays(plan, tmp_path: Path) -> None:
    for day in (FIRST, SECOND):
        run_night(Night(plan(), day))
    folders = NightFolders(plan().root)
    first = folders.good.library(FIRST).rename(tmp_path / "archive")
    folders.good.library(FIRST).symlink_to(first)
    folders.good.prune(1)
    assert folders.good.nights() == [SECOND, FIRST]
    assert (first / "metadata.json").is_file()


@pytest.mark.usefixtures("written")
def test_two_runs_at_once_do_not_meet(plan) -> None:
    with NightFolders(plan().root).claimed(), pytest.raises(NightBusyError, match="another nightly run"):
        run_night(Night(plan(), FIRST))
    assert run_night(Night(plan(), FIRST)).passed


KILLS = [
    (run, "validate_library"),
    (run, "diff_libraries"),
    (RunArchive, "note"),
    (RunArchive, "put"),
    (Path, "rename"),
    (NightFolders, "point_at"),
    (NightFolders, "forget_work"),
    (RunArchive, "prune"),
]


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("owner", "name"), KILLS, ids=[name for _, name in KILLS])
def test_a_kill_at_any_step_leaves_a_good_night_and_the_next_run_goes_on(
    plan, owner: object, name: str, after: bool
) -> None:
    run_night(Night(plan(), FIRST))
    real = getattr(owner, name)

    def killed(*arguments, **options):
        if after:
            real(*arguments, **options)
        raise KilledError

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(owner, name, killed)
        run_night(Night(plan(), SECOND))
    assert current_seeds(plan()) == [7]
    assert run_night(Night(plan(), SECOND)).passed
    folders = NightFolders(plan().root)
    assert folders.current() == SECOND
    assert folders.good.nights() == [SECOND, FIRST]
    assert sorted(path.name for path in plan().root.iterdir() if not path.name.startswith(".")) in (
        ["current", "nights"],
        ["current", "nights", "work"],
    )


@pytest.mark.usefixtures("written")
def test_old_nights_are_removed_but_never_the_current_one(plan) -> None:
    keep = "[keep]\ngood = 2\nfailed = 1\n"
    days = [FIRST + datetime.timedelta(days=offset) for offset in range(4)]
    for day in days:
        run_night(Night(plan(keep), day))
    folders = NightFolders(plan().root)
    assert folders.good.nights() == [days[3], days[2]]
    folders.point_at(days[2])
    folders.good.prune(1, spare={days[2]})
    assert folders.good.nights() == [days[3], days[2]]


def test_failed_nights_are_kept_for_a_while(plan, written) -> None:
    written["grades"] = [Grade.DIFFERS] * 9
    for offset in range(3):
        run_night(Night(plan("[keep]\nfailed = 2\n"), FIRST + datetime.timedelta(days=offset)))
    assert len(NightFolders(plan().root).failed.nights()) == 2


def seeds_of(plan: NightPlan, day: datetime.date) -> list[int]:
    requests = [recipe.candidates for recipe in plan.strata(day)]
    return [seed for request in requests if request for seed in request.seed_order()]


def test_the_strata_of_a_recipe_advance_together(plan) -> None:
    strata = "".join(f'[[strata]]\nname = "{name}"\ncandidates = {{ candidates = 2 }}\n' for name in ("a", "b"))
    advancing = plan("seed_advance = 10\n", f'system = "ieee13"\n{strata}')
    first, second = (seeds_of(advancing, day) for day in (FIRST, SECOND))
    assert len(set(first)) == 4
    assert [later - earlier for earlier, later in zip(first, second, strict=True)] == [10_000] * 4


def test_seeds_advance_with_the_day(plan) -> None:
    advancing = plan("seed_advance = 10\n")
    first, second = (seeds_of(advancing, day) for day in (FIRST, SECOND))
    assert len(first) == 3
    assert second[0] - first[0] == 10 * 1000
    assert seeds_of(plan(), FIRST) == [7, 1007, 2007]


@pytest.mark.parametrize(
    ("extra", "recipe", "message"),
    [
        ("unknown = 1\n", None, "unknown"),
        ("[limits]\nmin_accepted = 0\n", None, "min_accepted"),
        ("[keep]\ngood = 0\n", None, "good"),
        ("", 'system = "ieee13"\n', r"has no \[candidates\]"),
        ("seed_advance = 5\n", 'system = "ieee13"\n[candidates]\nseeds = [7]\n', "seed_advance is 5"),
    ],
)
def test_a_bad_file_is_refused_before_anything_runs(plan, extra: str, recipe: str | None, message: str) -> None:
    with pytest.raises(DataFileError, match=message):
        plan(extra) if recipe is None else plan(extra, recipe)


def test_a_missing_recipe_is_named(tmp_path: Path) -> None:
    config = tmp_path / "nightly.toml"
    config.write_text('root = "root"\nrecipe = "nowhere.toml"\n', encoding="utf-8")
    with pytest.raises(MissingDataError, match=r"nowhere\.toml"):
        read_nightly(config)


def test_a_report_is_one_line_of_strict_json() -> None:
    facts = NightReport(FIRST, NightOutcome.NOT_VALID, "why", against=SECOND).to_dict()
    assert json.loads(json.dumps(facts, allow_nan=False))["exit_code"] == 11


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("place", ["work/2025-03-01/notes.txt", "failed/2025-03-01/notes.txt"])
def test_a_night_removes_nothing_that_is_not_its_own(plan, place: str) -> None:
    stranger = plan().root / place
    stranger.parent.mkdir(parents=True)
    stranger.write_text("mine")
    with pytest.raises(BuildRefusedError, match=stranger.name):
        run_night(Night(plan(), FIRST))
    assert stranger.read_text() == "mine"


@pytest.mark.usefixtures("written")
def test_an_old_night_with_notes_in_it_is_not_pruned(plan) -> None:
    run_night(Night(plan("[keep]\ngood = 1\n"), FIRST))
    notes = plan().root / "nights" / "2025-03-01" / "notes.txt"
    notes.write_text("mine")
    run_night(Night(plan("[keep]\ngood = 1\n"), SECOND))
    assert notes.read_text() == "mine"
    assert not (plan().root / ".nightly.lock").exists()

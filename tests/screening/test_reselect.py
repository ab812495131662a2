"""Screening again: stored figures suffice for most candidates, and a run of the others gives a fresh build's bytes."""

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stratum_samples import MIXTURE, kind_at, measure_kinds, recovery_at, stratum

from scenario_lib.errors import BuildRefusedError, InvalidSettingError, LibraryError
from scenario_lib.execution.tasks import TaskFailure, TaskOutcome
from scenario_lib.library.combine import merge_libraries
from scenario_lib.library.layout import DIGESTED
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.screening import build as module
from scenario_lib.screening import reselect
from scenario_lib.screening.build import build_strata
from scenario_lib.screening.request import BuildOptions, CandidateRequest
from scenario_lib.screening.reselect import run_selection, select_again, stored_strata
from scenario_lib.screening.select import Stratum

OPENG2G = Path(__file__).parents[1] / "data" / "openg2g_library_ieee13"
FORTY = CandidateRequest(candidates=40)


@pytest.fixture(autouse=True)
def ran(monkeypatch) -> list[int]:
    """Run made-up candidates in this process; gives the seeds that were measured."""
    measured: list[int] = []

    def run(function, tasks, options):
        for seed in tasks:
            measured.append(seed)
            yield TaskOutcome(seed, function(seed))

    monkeypatch.setattr(module, "measure_candidate", measure_kinds)
    monkeypatch.setattr(module, "run_tasks", run)
    return measured


def build(out: Path, *strata: Stratum) -> Path:
    return build_strata(strata, BuildOptions(out)).path


def content(library: Path) -> dict[str, bytes]:
    return {name: (library / name).read_bytes() for name in DIGESTED}


def run_again(library: Path, out: Path, **thresholds) -> Path:
    stored = stored_strata(library, thresholds)
    return run_selection(library, stored, BuildOptions(out), None, lambda _: None).path


def test_a_narrower_band_needs_no_run_and_gives_a_fresh_builds_bytes(ran: list[int], tmp_path: Path) -> None:
    wide = build(tmp_path / "wide", stratum(None, FORTY, min_recovery_frac=0.4))
    narrow = {"min_recovery_frac": 0.6, "max_recovery_frac": 0.85, "max_always_min": 1}
    fresh = build(tmp_path / "fresh", stratum(None, FORTY, **narrow))
    ran.clear()
    report = select_again(wide, stored_strata(wide, narrow), tmp_path / "selected")
    assert ran == []
    assert report.needs_run == ()
    assert report.kept == tuple(record.seed for record in ScenarioLibrary(fresh))
    assert sorted(report.kept + report.lost) == [record.seed for record in ScenarioLibrary(wide)]
    assert content(tmp_path / "selected") == content(fresh)


def test_the_same_band_gives_the_same_library(ran: list[int], tmp_path: Path) -> None:
    library = build(tmp_path / "library", stratum(None, FORTY, min_recovery_frac=0.4, max_always_min=1))
    assert any(row["reason"] == "always_min_cap" for row in ScenarioLibrary(library).candidates.to_pylist())
    report = select_again(library, stored_strata(library, {}), tmp_path / "selected")
    assert (report.needs_run, report.lost) == ((), ())
    assert content(tmp_path / "selected") == content(library)


def test_a_wider_band_names_the_candidates_that_need_a_run(ran: list[int], tmp_path: Path) -> None:
    narrow = build(tmp_path / "narrow", stratum(None, FORTY, min_recovery_frac=0.8))
    report = select_again(narrow, stored_strata(narrow, {"min_recovery_frac": 0.6}), tmp_path / "selected")
    wanted = [s for s in FORTY.seed_order() if kind_at(s) and 0.6 <= recovery_at(s) < 0.8]
    assert report.needs_run == tuple(wanted)
    library = ScenarioLibrary(tmp_path / "selected")
    assert [record.seed for record in library] == [record.seed for record in ScenarioLibrary(narrow)]
    reasons = {row["seed"]: row["reason"] for row in library.candidates.to_pylist()}
    assert {seed for seed, reason in reasons.items() if reason == "needs_run"} == set(wanted)
    assert report.reasons["needs_run"] == len(wanted)
    assert f"need a run          {len(wanted)} candidates: seeds {wanted[0]}" in "\n".join(report.lines())
    assert report.to_dict()["path"] == str(tmp_path / "selected")


def test_running_them_gives_a_fresh_builds_bytes(ran: list[int], tmp_path: Path) -> None:
    narrow = build(tmp_path / "narrow", stratum(None, FORTY, min_recovery_frac=0.8))
    fresh = build(tmp_path / "fresh", stratum(None, FORTY, min_recovery_frac=0.6))
    report = select_again(narrow, stored_strata(narrow, {"min_recovery_frac": 0.6}), None)
    assert report.path is None
    ran.clear()
    run_again(narrow, tmp_path / "run", min_recovery_frac=0.6)
    assert sorted(ran) == list(report.needs_run)
    assert content(tmp_path / "run") == content(fresh)


def test_what_was_left_undecided_can_be_run_later(ran: list[int], tmp_path: Path) -> None:
    narrow = build(tmp_path / "narrow", stratum(None, FORTY, min_baseline_integral=20.0, min_recovery_frac=0.4))
    fresh = build(tmp_path / "fresh", stratum(None, FORTY, min_recovery_frac=0.4))
    select_again(narrow, stored_strata(narrow, {"min_baseline_integral": 0.2}), tmp_path / "undecided")
    ran.clear()
    run_again(tmp_path / "undecided", tmp_path / "run")
    assert {kind_at(seed) for seed in ran} == {"under"}, "only those whose OFO rollout was never run"
    assert content(tmp_path / "run") == content(fresh)


bands = st.fixed_dictionaries(
    {
        "min_recovery_frac": st.sampled_from([0.3, 0.45, 0.6, 0.8]),
        "max_recovery_frac": st.sampled_from([0.85, 1.0]),
        "min_baseline_integral": st.sampled_from([0.2, 20.0]),
        "min_baseline_integral_over": st.sampled_from([0.01, 20.0]),
        "max_always_min": st.sampled_from([0, 1, 5]),
    }
)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bands, bands)
def test_from_any_band_to_any_other(tmp_path_factory: pytest.TempPathFactory, first, second) -> None:
    folder = tmp_path_factory.mktemp("bands")
    request = CandidateRequest(candidates=24)
    library = build(folder / "first", stratum(None, request, **first))
    fresh = build(folder / "fresh", stratum(None, request, **second))
    assert content(run_again(library, folder / "run", **second)) == content(fresh)


def test_a_mixture_keeps_its_strata_and_quotas(ran: list[int], tmp_path: Path) -> None:
    mixture = build(tmp_path / "mixture", *MIXTURE)
    stored = stored_strata(mixture, {})
    report = select_again(mixture, stored, tmp_path / "same")
    assert report.lost == ()
    assert content(tmp_path / "same") == content(mixture)
    narrower = stored_strata(mixture, {"min_recovery_frac": 0.8})
    assert {part.plan.criteria.min_recovery_frac for part in narrower} == {0.8}
    report = select_again(mixture, narrower, tmp_path / "narrower")
    assert all(recovery_at(seed) >= 0.8 for seed in report.kept)
    assert set(ScenarioLibrary(tmp_path / "narrower").recipes) == set(ScenarioLibrary(mixture).recipes)


def test_windows_at_the_ends_of_the_hour_come_out_again(ran: list[int], tmp_path: Path) -> None:
    """Violations begin at 50 s and end at 3500 s, so that both ends of the window are cut."""
    library = build(tmp_path / "library", stratum(None, FORTY, min_recovery_frac=0.4))
    rows = ScenarioLibrary(library).candidates.to_pylist()
    assert {(row["t_control_start"], row["t_control_end"]) for row in rows if row["kind"]} == {(0, 3600)}
    buffers = {"window_before_s": 10, "window_after_s": 20}
    other = build(tmp_path / "other", stratum(None, FORTY, min_recovery_frac=0.4, **buffers))
    select_again(other, stored_strata(other, {}), tmp_path / "selected")
    assert content(tmp_path / "selected") == content(other)


def test_an_empty_library_can_be_selected_from(ran: list[int], tmp_path: Path) -> None:
    empty = build(tmp_path / "empty", stratum(None, FORTY, min_recovery_frac=0.99))
    report = select_again(empty, stored_strata(empty, {}), tmp_path / "none")
    assert (report.kept, report.path) == ((), None)
    assert not (tmp_path / "none").exists()
    run_again(empty, tmp_path / "run", min_recovery_frac=0.4)
    assert content(tmp_path / "run") == content(build(tmp_path / "fresh", stratum(None, FORTY, min_recovery_frac=0.4)))


def test_a_failed_candidate_stays_a_row(monkeypatch, tmp_path: Path) -> None:
    def run(function, tasks, options):
        for seed in tasks:
            failure = TaskFailure("error", "no memory") if seed == 4007 else None
            yield TaskOutcome(seed, None if failure else function(seed), failure)

    monkeypatch.setattr(module, "run_tasks", run)
    library = build(tmp_path / "library", stratum(None, FORTY, min_recovery_frac=0.4))
    select_again(library, stored_strata(library, {}), tmp_path / "selected")
    assert content(tmp_path / "selected") == content(library)


def test_figures_of_other_versions_or_data_are_not_mixed(
    monkeypatch, tmp_path: Path, specs_dir: Path, ran: list[int]
) -> None:
    library = build(tmp_path / "library", stratum(None, FORTY, min_recovery_frac=0.8))
    ran.clear()
    with pytest.raises(BuildRefusedError, match=r"the data are not those .*data\.models: found .*is --specs-dir right"):
        stored = stored_strata(library, {}, specs_dir)
        run_selection(library, stored, BuildOptions(tmp_path / "run"), None, lambda _: None)
    monkeypatch.setattr(reselect, "versions", lambda: {"numpy": "9.9"})
    with pytest.raises(BuildRefusedError, match="figures of two versions do not go together"):
        run_again(library, tmp_path / "run")
    assert ran == []


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [({"min_recovery_frac": 2.0}, "max_recovery_frac is 1.0; expected at least"), ({"max_always_min": -1}, "is -1")],
)
def test_thresholds_are_checked(tmp_path: Path, thresholds: dict, message: str) -> None:
    library = build(tmp_path / "library", stratum(None, FORTY, min_recovery_frac=0.4))
    with pytest.raises(InvalidSettingError, match=message):
        stored_strata(library, thresholds)


def test_what_cannot_be_selected_from(tmp_path: Path, ran: list[int]) -> None:
    with pytest.raises(LibraryError, match="has no candidates table"):
        stored_strata(OPENG2G, {})
    request = CandidateRequest(candidates=8)
    one = build(tmp_path / "one", stratum(None, request, min_recovery_frac=0.4))
    other = build(tmp_path / "other", stratum("other", request, load=(1.0, 1.2), min_recovery_frac=0.4))
    merge_libraries([one, other], tmp_path / "merged")
    with pytest.raises(LibraryError, match="has candidates of several recipes, which were merged; export one recipe"):
        select_again(tmp_path / "merged", stored_strata(tmp_path / "merged", {}), tmp_path / "selected")
    assert select_again(tmp_path / "merged", stored_strata(tmp_path / "merged", {}), None).lost == ()


def test_a_library_is_replaced_only_if_asked_and_never_the_one_that_is_read(tmp_path: Path, ran: list[int]) -> None:
    library = build(tmp_path / "library", stratum(None, FORTY, min_recovery_frac=0.4))
    out = Path(shutil.copytree(library, tmp_path / "out"))
    stored = stored_strata(library, {"min_recovery_frac": 0.8})
    with pytest.raises(BuildRefusedError, match="exists already"):
        select_again(library, stored, out)
    for place in (library, library / "sub"):
        with pytest.raises(BuildRefusedError, match="which is read|inside the library"):
            select_again(library, stored, place, overwrite=True)
        with pytest.raises(BuildRefusedError, match="which is read|inside the library"):
            run_selection(library, stored, BuildOptions(place, overwrite=True), None, lambda _: None)
    select_again(library, stored, out, overwrite=True)
    assert 0 < len(ScenarioLibrary(out)) < len(ScenarioLibrary(library))


@pytest.mark.parametrize("name", ["library.rejected", ".library.build", ".library.new"])
def test_a_run_never_clears_what_it_reads(tmp_path: Path, ran: list[int], name: str) -> None:
    library = build(tmp_path / name, stratum(None, FORTY, min_recovery_frac=0.4))
    stored = stored_strata(library, {"min_recovery_frac": 0.8})
    with pytest.raises(BuildRefusedError, match="which is read"):
        run_selection(library, stored, BuildOptions(tmp_path / "library", overwrite=True), None, lambda _: None)

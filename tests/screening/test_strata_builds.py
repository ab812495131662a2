"""Mixtures: several strata in one library, each with its settings, band and quota. Candidates are made up."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from scenario_lib.pipelines.build import summary_lines
from stratum_samples import MIXTURE, kind_at, measure_kinds, recovery_at, stratum

from scenario_lib.analysis.info import library_info
from scenario_lib.errors import BuildRefusedError, InvalidSettingError
from scenario_lib.execution.tasks import TaskOutcome
from scenario_lib.library.combine import export_recipe, merge_libraries
from scenario_lib.library.layout import DIGESTED
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.scenario.settings import Range
from scenario_lib.screening import build as module
from scenario_lib.screening.build import BuildProgress, BuildResult, build_strata
from scenario_lib.screening.request import BuildOptions, CandidateRequest, Quota
from scenario_lib.screening.select import Stratum, plan_stratum, require_disjoint


class Stopped(BaseException):
    """Stands for a kill."""


def renamed(stratum: Stratum, name: str | None) -> Stratum:
    return plan_stratum(stratum.plan, stratum.request, name)


@pytest.fixture
def in_this_process(monkeypatch):
    """Run made-up candidates here, up to three at a time, and finish them in a random order."""
    monkeypatch.setattr(module, "measure_candidate", measure_kinds)

    def use(shuffle: int = 0, stop_after: int | None = None) -> list[int]:
        rng, ran = random.Random(shuffle), []

        def run(function, tasks, options):
            feed, under_way = iter(tasks), []
            while True:
                while len(under_way) < 3 and (task := next(feed, None)) is not None:
                    under_way.append(task)
                if not under_way:
                    return
                if len(ran) == stop_after:
                    raise Stopped
                ran.append(under_way.pop(rng.randrange(len(under_way))))
                yield TaskOutcome(ran[-1], function(ran[-1]))

        monkeypatch.setattr(module, "run_tasks", run)
        return ran

    use()
    return use


def build(out: Path, strata=MIXTURE, **options) -> BuildResult:
    return build_strata(strata, BuildOptions(out, **options))


def content(library: Path) -> dict[str, bytes]:
    return {name: (library / name).read_bytes() for name in DIGESTED}


def test_every_stratum_meets_its_quota_in_one_library(in_this_process, tmp_path: Path) -> None:
    result = build(tmp_path / "library")
    assert result.shortfalls == []
    library = ScenarioLibrary(result.path)
    names = {recipe_id: recipe.stratum for recipe_id, recipe in library.recipes.items()}
    kinds = Counter((names[record.digests.recipe], record.kind) for record in library)
    any_kinds = {kind: count for (name, kind), count in kinds.items() if name == "any"}
    assert sum(any_kinds.values()) == 2
    assert {key: count for key, count in kinds.items() if key[0] != "any"} == {
        ("evening", "under"): 4,
        ("evening", "mixed"): 1,
        ("noon", "over"): 3,
    }
    assert [record.seed for record in library] == sorted({record.seed for record in library})
    assert all(library.materialize(record).seed == record.seed for record in library)
    evening = next(record for record in library if names[record.digests.recipe] == "evening")
    assert evening.load_scale >= 1.0


def test_rows_say_why_and_for_which_recipe(in_this_process, tmp_path: Path) -> None:
    library = ScenarioLibrary(build(tmp_path / "library").path)
    by_name = {recipe.stratum: recipe_id for recipe_id, recipe in library.recipes.items()}
    rows = library.candidates.to_pylist()
    for row in rows:
        if kind_at(row["seed"]) is not None and row["recipe"] == by_name["noon"]:
            assert (row["reason"] == "kind_not_wanted") == (row["kind"] != "over")
            assert row["ofo_ran"] == (row["kind"] == "over"), "what is not wanted is not simulated either"
    evening = [row for row in rows if row["recipe"] == by_name["evening"]]
    full = [row for row in evening if row["reason"] == "quota_full"]
    assert {row["kind"] for row in full} == {"mixed"}
    assert all(recovery_at(row["seed"]) >= 0.4 and not row["accepted"] for row in full)
    assert evening[-1]["accepted"], "the table ends where the last quota is met"


def test_bands_and_quotas_are_stated_for_each_stratum(in_this_process, tmp_path: Path) -> None:
    contents = ScenarioLibrary(build(tmp_path / "library").path).contents
    stated = {contents.recipes[s.recipe].stratum: s for s in contents.strata}
    assert {name: s.screening["min_recovery_frac"] for name, s in stated.items()} == {
        "evening": 0.4,
        "noon": 0.6,
        "any": 0.4,
    }
    assert stated["evening"].quota == {"under": 4, "over": 0, "mixed": 1}
    assert stated["any"].quota == {}
    assert contents.screening["min_recovery_frac"] == 0.4


@pytest.mark.parametrize("shuffle", range(4))
def test_the_order_of_finishing_changes_no_byte(in_this_process, tmp_path: Path, shuffle: int) -> None:
    in_this_process(shuffle=100)
    first = content(build(tmp_path / "first").path)
    in_this_process(shuffle=shuffle)
    assert content(build(tmp_path / "second", jobs=2).path) == first


@pytest.mark.parametrize("stop_after", [0, 3, 14, 25])
def test_a_killed_mixture_resumes_to_the_same_bytes(in_this_process, tmp_path: Path, stop_after: int) -> None:
    whole = content(build(tmp_path / "whole").path)
    in_this_process(stop_after=stop_after)
    with pytest.raises(Stopped):
        build(tmp_path / "library")
    ran = in_this_process(shuffle=7)
    result = build(tmp_path / "library", resume=True)
    assert result.log.resumed == stop_after
    assert len(ran) + stop_after == len(result.log.seconds_by_seed)
    assert content(result.path) == whole


def test_resuming_under_other_strata_is_refused(in_this_process, tmp_path: Path) -> None:
    in_this_process(stop_after=3)
    with pytest.raises(Stopped):
        build(tmp_path / "library")
    in_this_process()
    evening, noon, rest = MIXTURE
    moved, later = (replace(p, request=replace(p.request, seed_start=n)) for p, n in ((noon, 45), (rest, 90)))
    for strata, difference in (
        ((evening, moved, later), "stratum.any.first_seed: found 90007, expected 80007"),
        ((evening, noon), "strata: found ['evening', 'noon'], expected ['evening', 'noon', 'any']"),
        ((renamed(evening, None),), "engine: found 'reference', expected nothing"),
    ):
        with pytest.raises(BuildRefusedError) as caught:
            build(tmp_path / "library", strata, resume=True)
        assert difference in str(caught.value)


def test_a_short_quota_is_said_by_stratum_and_kind(in_this_process, tmp_path: Path) -> None:
    evening, noon, rest = MIXTURE
    short = replace(noon, request=replace(noon.request, max_candidates=6))
    result = build(tmp_path / "library", (evening, short, rest))
    assert result.shortfalls == ["noon: 1 of 3 over"]
    assert result.target_missed
    assert len(result.accepted) == 8


def test_a_stratum_holds_what_a_build_of_its_own_holds(in_this_process, tmp_path: Path) -> None:
    build(tmp_path / "mixture")
    for part in MIXTURE:
        build(tmp_path / str(part.name), (part,))
        export_recipe(tmp_path / "mixture", part.name, tmp_path / f"{part.name} exported")
        assert content(tmp_path / f"{part.name} exported") == content(tmp_path / str(part.name))


def test_the_mixture_is_its_strata_merged(in_this_process, tmp_path: Path) -> None:
    build(tmp_path / "mixture")
    for part in MIXTURE:
        build(tmp_path / str(part.name), (part,))
    merge_libraries([tmp_path / "any", tmp_path / "noon", tmp_path / "evening"], tmp_path / "merged")
    assert content(tmp_path / "merged") == content(tmp_path / "mixture")


def test_a_stratum_draws_what_a_plain_build_of_its_seeds_draws(in_this_process, tmp_path: Path) -> None:
    """A seed goes on meaning one scenario: the name of a stratum does not matter to what is drawn."""
    part = MIXTURE[0]
    named, plain = (ScenarioLibrary(build(tmp_path / str(n), (renamed(part, n),)).path) for n in ("x", None))
    assert [r.digests.scenario_digest for r in named] == [r.digests.scenario_digest for r in plain]
    assert named[0].digests.recipe != plain[0].digests.recipe
    assert named[0].contract() == plain[0].contract()


def test_progress_goes_on_from_stratum_to_stratum(in_this_process, tmp_path: Path) -> None:
    steps: list[BuildProgress] = []
    build_strata(MIXTURE, BuildOptions(tmp_path / "library"), steps.append)
    assert {step.total for step in steps} == {5 + 3 + 2}
    assert [step.done for step in steps] == sorted(step.done for step in steps)
    assert (steps[0].done, steps[-1].done, steps[-1].accepted) == (0, 10, 10)


def test_summary_and_info_count_by_stratum(in_this_process, tmp_path: Path) -> None:
    result = build(tmp_path / "library")
    assert any(
        line.startswith("stratum             evening: 4 under, 1 mixed of") for line in summary_lines(result, 1.0)
    )
    info = library_info(result.path)
    counts = {stratum.name: (stratum.kinds, stratum.quota) for stratum in info.strata}
    assert counts["noon"] == ({"over": 3}, {"under": 0, "over": 3, "mixed": 0})
    (line,) = [line for line in info.lines() if "noon" in line]
    assert line.startswith("stratum             noon (")
    assert "3 over of" in line
    assert "asked for 3 over" in line
    assert info.to_dict()["strata"][0]["recipe"] in info.recipes


def test_strata_that_share_seeds_or_names_are_refused(in_this_process, tmp_path: Path) -> None:
    evening, noon, _ = MIXTURE
    overlapping = replace(noon, request=replace(noon.request, seed_start=39))
    with pytest.raises(InvalidSettingError, match="strata 'evening' and 'noon' share 1 seeds, such as 39007"):
        build(tmp_path / "library", (evening, overlapping))
    with pytest.raises(InvalidSettingError, match="two strata are called 'evening'"):
        require_disjoint((evening, renamed(noon, "evening")))
    assert list(tmp_path.iterdir()) == []


def test_a_quota_without_strata(in_this_process, tmp_path: Path) -> None:
    request = CandidateRequest(quota=Quota(under=2, over=1), max_candidates=30)
    result = build(tmp_path / "library", (stratum(None, request, Range(0.5, 2.0)),))
    library = ScenarioLibrary(result.path)
    assert Counter(record.kind for record in library) == {"under": 2, "over": 1}
    assert library.config["randomize_kwargs"]["load_scale_min"] == 0.5
    assert library.contents.strata[0].quota == {"under": 2, "over": 1, "mixed": 0}

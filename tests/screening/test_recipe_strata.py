"""Strata in recipe files: inherited tables, seeds that follow on, faults named by file and stratum."""

from pathlib import Path

import pytest

from scenario_lib.errors import DataFileError, InvalidSettingError
from scenario_lib.screening.recipe_file import (
    RecipeFile,
    parse_recipe,
    parse_strata,
    planned,
    read_recipe_tables,
    recipe_for_seed,
    with_overlay,
    with_request,
    with_setting,
)
from scenario_lib.screening.request import CandidateRequest, Quota
from scenario_lib.screening.select import require_disjoint

RECIPES = Path(__file__).parents[2] / "data" / "recipes"

TWO = """
system = "ieee13"
[randomization]
ramp_up_prob = 0.3
[screening]
min_recovery_frac = 0.4
[[strata]]
name = "evening"
candidates = { quota = { under = 200, mixed = 50 }, max_candidates = 4000 }
randomization = { load_scale_min = 1.0 }
[[strata]]
name = "noon"
overlay = false
candidates = { accept = 30 }
screening = { min_recovery_frac = 0.6 }
"""


def strata_of(text: str, tmp_path: Path) -> list[RecipeFile]:
    path = tmp_path / "r.toml"
    path.write_text(text)
    return parse_strata(read_recipe_tables(path), str(path))


def test_strata_of_any_size_are_planned_at_once(tmp_path: Path) -> None:
    wide = TWO.replace("max_candidates = 4000", "max_candidates = 1_000_000_000")
    strata = strata_of(wide, tmp_path)
    require_disjoint(planned(strata))
    assert recipe_for_seed(strata, 10**12 + 7, "r.toml") is strata[1]
    assert recipe_for_seed(strata, 10**12 - 993, "r.toml") is strata[0]


def test_a_stratum_inherits_what_it_does_not_say(tmp_path: Path) -> None:
    evening, noon = strata_of(TWO, tmp_path)
    assert (evening.name, noon.name) == ("evening", "noon")
    assert evening.randomization == {"ramp_up_prob": 0.3, "load_scale_min": 1.0}
    assert noon.randomization == {"ramp_up_prob": 0.3}
    assert evening.screening.min_recovery_frac == 0.4
    assert noon.screening.min_recovery_frac == 0.6
    assert evening.experiment().overlay is not None
    assert noon.experiment().overlay is None


def test_seeds_follow_on_from_the_brake_of_the_stratum_before(tmp_path: Path) -> None:
    evening, noon = strata_of(TWO, tmp_path)
    assert evening.candidates == CandidateRequest(quota=Quota(under=200, mixed=50), max_candidates=4000)
    assert noon.candidates == CandidateRequest(accept=30, seed_start=4000)
    given = TWO.replace("{ accept = 30 }", "{ accept = 30, seed_start = 9000 }")
    assert strata_of(given, tmp_path)[1].candidates == CandidateRequest(accept=30, seed_start=9000)


def test_where_one_recipe_is_expected_strata_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"r.toml: has strata; expected a recipe without them"):
        parse_recipe({"system": "ieee13", "strata": []}, "r.toml")


def test_a_file_without_strata_is_one_recipe(tmp_path: Path) -> None:
    (only,) = strata_of('system = "ieee13"\n[candidates]\naccept = 3\n', tmp_path)
    assert only.name is None
    assert only.candidates == CandidateRequest(accept=3)


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_recipes_can_be_planned(path: Path) -> None:
    strata = planned(parse_strata(read_recipe_tables(path), str(path)))
    require_disjoint(strata)
    assert all(stratum.plan.kinds == stratum.request.goal.kinds for stratum in strata)


def test_the_shipped_mixture_asks_for_three_kinds() -> None:
    path = RECIPES / "ieee13_mixture.toml"
    strata = parse_strata(read_recipe_tables(path), str(path))
    assert [str(stratum.candidates.quota) for stratum in strata] == [
        str(Quota(under=200)),
        str(Quota(over=100)),
        str(Quota(mixed=50)),
    ]


def test_options_win_over_strata_too(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(TWO)
    tables = read_recipe_tables(path)
    changed = with_setting(with_setting(tables, "min_recovery_frac", 0.8), "load_scale_min", 0.9)
    changed = with_overlay(changed, True)
    changed = with_request(changed, {"seed_start": 500, "accept": None})
    evening, noon = parse_strata(changed, "command line")
    assert (evening.screening.min_recovery_frac, noon.screening.min_recovery_frac) == (0.8, 0.8)
    assert evening.randomization["load_scale_min"] == noon.randomization["load_scale_min"] == 0.9
    assert noon.overlay is True
    assert (evening.candidates.seed_start, noon.candidates.seed_start) == (500, 4500)
    assert parse_strata(tables, "file") == strata_of(TWO, tmp_path), "the file's tables are as they were"
    with pytest.raises(InvalidSettingError, match="accept: the recipe has strata, each with its own"):
        with_request(tables, {"accept": 5, "seed_start": 3})


def test_a_seed_is_drawn_by_the_stratum_that_has_it(tmp_path: Path) -> None:
    strata = strata_of(TWO, tmp_path)
    assert recipe_for_seed(strata, 3_999_007, "r.toml") is strata[0]
    assert recipe_for_seed(strata, 4_000_007, "r.toml") is strata[1]
    with pytest.raises(DataFileError, match=r"r.toml: seed 8 belongs to none of its strata \(evening, noon\)"):
        recipe_for_seed(strata, 8, "r.toml")


NAMED = 'system = "ieee13"\n[[strata]]\nname = "a"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('system = "ieee13"\nstrata = []', "strata is []; expected tables [[strata]]"),
        ('system = "ieee13"\nstrata = 3', "strata is 3"),
        ('system = "ieee13"\n[[strata]]\nquota = 3', "strata[0]: name is None"),
        ('system = "ieee13"\n[[strata]]\nname = "../a"', "strata[0]: name is '../a'"),
        (NAMED, "stratum 'a': candidates"),
        (NAMED + "candidates = 5", "stratum 'a': candidates is 5; expected a table"),
        (NAMED + "candidates = { quota = { above = 3 } }", "stratum 'a': candidates.quota.above"),
        (NAMED + "candidates = { quota = { under = -3 } }", "quota under is -3"),
        (NAMED + "candidates = { quota = {} }", "at least one record of one kind"),
        (NAMED + "candidates = { accept = 5 }\nsurprise = 1", "stratum 'a': surprise"),
        (NAMED + 'candidates = { accept = 5 }\nsystem = "ieee34"', "expected all strata on one feeder"),
        (NAMED + "candidates = { accept = 5 }\nrandomization = { ramp_up_prob = 2 }", "stratum 'a': randomization"),
        (NAMED + "candidates = { accept = 5 }\nscreening = { min_recovery = 2 }", "screening.min_recovery"),
        ('system = "ieee13"\n[candidates]\naccept = 5\n[[strata]]\nname = "a"', "candidates is given beside strata"),
    ],
)
def test_a_faulty_stratum_is_one_line_that_names_file_and_stratum(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataFileError) as caught:
        strata_of(text, tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'r.toml'}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)

"""What a library states of its strata: the hull of their bands, and refusals of what is not a stratum."""

from pathlib import Path

import pytest
from combined_samples import PLAIN, write_combined
from hypothesis import given
from hypothesis import strategies as st
from library_samples import SCREENING, edit_metadata

from scenario_lib.errors import LibraryError
from scenario_lib.library.metadata import read_contents
from scenario_lib.library.recipe import StratumEntry, in_order, loosest_thresholds, to_state

screenings = st.fixed_dictionaries(
    {
        "min_recovery_frac": st.floats(0, 0.5),
        "max_recovery_frac": st.floats(0.5, 1),
        "max_always_min": st.integers(0, 9),
    }
)
strata = st.lists(st.builds(StratumEntry, st.sampled_from("ab"), screenings, st.just({})), min_size=1, max_size=5)


@given(strata, st.randoms(use_true_random=False))
def test_order_and_repetition_never_matter(found, shuffler) -> None:
    shuffled = [*found, *found]
    shuffler.shuffle(shuffled)
    assert in_order(shuffled) == in_order(found)
    assert loosest_thresholds(shuffled) == loosest_thresholds(found)


@given(strata)
def test_the_hull_holds_every_band(found) -> None:
    widest = loosest_thresholds(found)
    for stratum in found:
        assert widest["min_recovery_frac"] <= stratum.screening["min_recovery_frac"]
        assert widest["max_recovery_frac"] >= stratum.screening["max_recovery_frac"]
        assert widest["max_always_min"] >= stratum.screening["max_always_min"]


def test_one_screening_for_all_needs_no_strata() -> None:
    assert to_state((StratumEntry("a", SCREENING), StratumEntry("b", SCREENING))) == ()
    quota = StratumEntry("b", SCREENING, {"under": 3})
    assert to_state((StratumEntry("a", SCREENING), quota)) == (StratumEntry("a", SCREENING), quota)


def test_a_library_without_strata_has_one_a_recipe(tmp_path: Path) -> None:
    contents = read_contents(write_combined(tmp_path / "library", [(PLAIN, [7])]))
    assert contents.strata == (StratumEntry(PLAIN.id, SCREENING),)
    assert contents.screening_of(PLAIN.id) == SCREENING


def test_whole_numbers_stay_whole(tmp_path: Path) -> None:
    stated = StratumEntry(PLAIN.id, {**SCREENING, "max_always_min": 5}, {"under": 2})
    contents = read_contents(write_combined(tmp_path / "library", [(PLAIN, [7])], strata=(stated,)))
    assert contents.strata == (stated,)
    assert isinstance(contents.screening_of(PLAIN.id)["max_always_min"], int)


@pytest.mark.parametrize(
    "strata",
    [
        [{"recipe": "0" * 12, "screening": {}, "quota": {}}],
        [{"recipe": PLAIN.id, "screening": {"min_recovery_frac": "half"}}],
        [{"recipe": PLAIN.id, "screening": {}, "quota": {"under": 1.5}}],
        [{"recipe": PLAIN.id}],
        [{"recipe": PLAIN.id, "screening": {}, "surprise": 1}],
        {"recipe": PLAIN.id},
        7,
    ],
)
def test_what_is_not_a_stratum_is_refused_by_file(tmp_path: Path, strata) -> None:
    library = write_combined(tmp_path / "library", [(PLAIN, [7])])
    edit_metadata(library, lambda metadata: metadata.update(strata=strata))
    with pytest.raises(LibraryError) as caught:
        read_contents(library)
    assert str(library / "metadata.json") in str(caught.value)
    assert "strata" in str(caught.value)


def test_a_stratum_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    library = write_combined(tmp_path / "library", [(PLAIN, [7])])
    edit_metadata(library, lambda metadata: metadata["recipes"][PLAIN.id].update(stratum=7))
    with pytest.raises(LibraryError, match="stratum is 7; expected a name"):
        read_contents(library)

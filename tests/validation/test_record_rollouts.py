"""Records played again, to be looked at."""

from pathlib import Path

import numpy as np
import pytest

from scenario_lib.errors import ReplayError
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.validation.replay import play_record

OPENG2G = Path(__file__).parents[1] / "data" / "openg2g_library_ieee13"


def test_a_record_of_the_reference_engine_is_played_on_the_compiled_one(built_library: Path) -> None:
    library = ScenarioLibrary(built_library)
    played = play_record(library, library[1])
    assert played.engine == "compiled"
    assert 0 <= played.largest_difference_pu2 < 1e-6
    assert (played.baseline.policy, played.ofo.policy) == ("none", "ofo")
    assert played.scenario.seed == 2007
    assert np.array_equal(played.baseline.batch_sizes[0], played.ofo.batch_sizes[0])


def test_a_record_that_cannot_be_drawn_again_is_not_played(built_library: Path, monkeypatch) -> None:
    library = ScenarioLibrary(built_library)

    def changed(_record):
        raise ReplayError("it changed")

    monkeypatch.setattr(library, "materialize", changed)
    with pytest.raises(ReplayError, match="it changed"):
        play_record(library, library[0])


def test_a_library_by_openg2gs_example_can_be_played() -> None:
    library = ScenarioLibrary(OPENG2G)
    assert play_record(library, library[0]).ofo.voltages_pu.shape[0] == 3600

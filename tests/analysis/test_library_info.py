"""What a person wants to know before training on a library."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from library_samples import write_sample

from scenario_lib.analysis.info import library_info
from scenario_lib.errors import LibraryError
from scenario_lib.feeders.experiment import OFOTuning
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.screening.build_record import machine
from scenario_lib.screening.criteria import as_screened, tuning_text

OPENG2G = Path(__file__).parents[1] / "data" / "openg2g_library_ieee13"


def test_facts_of_a_built_library(built_library: Path) -> None:
    info = library_info(built_library)
    assert (info.records, info.systems, info.kinds) == (2, ("ieee13",), {"under": 2})
    assert info.reasons == {"accepted": 2, "baseline_below_floor": 1, "no_violation": 1}
    assert info.overlays == 2
    assert info.verifiable
    assert info.reproducible
    assert info.recovery[0] <= info.recovery[1] <= info.recovery[2]
    text = "\n".join(info.lines())
    assert "records             2 on ieee13: 2 under; 2 with overlay" in text
    assert "candidates          4: 2 accepted, 1 baseline_below_floor, 1 no_violation" in text
    assert "numpy " in text
    (recipe,) = info.recipes
    assert f"data of recipe      {recipe}: circuit 6a00a3077d91, models " in text
    assert f"processor features  {', '.join(machine()['cpu_features'])}" in text
    assert json.loads(json.dumps(info.to_dict()))["records"] == 2


def test_facts_of_a_library_by_openg2gs_example() -> None:
    info = library_info(OPENG2G)
    assert (info.records, info.kinds, info.reasons, info.recipes) == (3, {"under": 3}, {}, ())
    assert info.recovery == (0.9300453579063676, 0.9790752895453844, 0.9882843706618677)
    assert info.window_s == (1257.0, 1591.0, 2408.0)
    assert not info.verifiable
    assert any("no digests" in line for line in info.lines())


def test_a_table_unlike_its_digest_is_not_counted(built_library: Path, tmp_path: Path) -> None:
    library = Path(shutil.copytree(built_library, tmp_path / "library"))
    path = library / "candidates.parquet"
    path.write_bytes(path.read_bytes().replace(b"no_violation", b"baseline_ok!"))
    with pytest.raises(LibraryError, match=r"candidates.parquet: is not the file that was written"):
        library_info(library)


def test_what_is_not_a_library_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="no such file; a library directory has one"):
        library_info(tmp_path)


@pytest.mark.parametrize("value", [1e9, -1e9, 10**9])
def test_a_threshold_that_nothing_reaches_is_called_so(built_library: Path, value: float) -> None:
    info = replace(library_info(built_library), screening={"min_recovery_frac": 0.5, "max_always_min": value})
    (line,) = (line for line in info.lines() if line.startswith("screening"))
    assert line == "screening           min_recovery_frac 0.5, max_always_min no limit"


def test_both_tunings_of_ofo_are_shown(built_library: Path, tmp_path: Path) -> None:
    """Also that of a file of the user's own, which evaluations follow and screening does not."""
    (recipe,) = ScenarioLibrary(built_library).recipes.values()
    tuned = replace(recipe.experiment, ofo=OFOTuning(w_throughput=0.25, sensitivity_update_interval=17))
    library = write_sample(tmp_path / "tuned", [(replace(recipe, experiment=tuned), [7])])
    (text,) = library_info(library).ofo
    screened, evaluated = text.split("; ")
    assert evaluated == "evaluated with w_throughput 0.25, sensitivity every 17 s"
    assert screened == f"screened with {tuning_text(as_screened(tuned).ofo)}"
    assert any(text in line for line in library_info(library).lines())
    assert screened == library_info(built_library).ofo[0].split("; ")[0]

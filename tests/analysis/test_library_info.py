"""What a person wants to know before training on a library."""

import json
import shutil
from pathlib import Path

import pytest

from scenario_lib.analysis.info import library_info
from scenario_lib.errors import LibraryError
from scenario_lib.screening.build_record import machine

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

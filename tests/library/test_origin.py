"""A library made from others says whose machine its figures are from."""

import json
from pathlib import Path

from combined_samples import PLAIN, write_combined

from scenario_lib.library.combine import export_recipe, merge_libraries
from scenario_lib.library.provenance import built_on, built_on_all

ONE = {"host": "one", "python": "3.12", "cpu_features": ["AVX2", "SSE"], "blas": ["openblas Haswell"]}
OTHER = {"host": "other", "python": "3.12", "cpu_features": ["AVX512", "SSE"], "blas": ["openblas Haswell"]}


def library_on(folder: Path, seed: int, machine: object) -> Path:
    library = write_combined(folder, [(PLAIN, [seed])])
    (library / "build-log.json").write_text(json.dumps({"machine": machine}))
    return library


def test_an_export_is_from_the_machine_of_its_source(tmp_path: Path) -> None:
    library = library_on(tmp_path / "library", 7, ONE)
    export_recipe(library, None, tmp_path / "out")
    log = json.loads((tmp_path / "out" / "build-log.json").read_text())
    assert log["machine"] == ONE
    assert (log["command"], log["sources"]) == ("export", [str(library)])


def test_a_merge_keeps_what_machines_share_and_every_processor_feature(tmp_path: Path) -> None:
    libraries = [library_on(tmp_path / "one", 7, ONE), library_on(tmp_path / "other", 1007, OTHER)]
    merge_libraries(libraries, tmp_path / "merged")
    assert built_on(tmp_path / "merged") == {
        "python": "3.12",
        "cpu_features": ["AVX2", "AVX512", "SSE"],
        "blas": ["openblas Haswell"],
    }


def test_a_log_that_says_nothing_usable_is_none(tmp_path: Path) -> None:
    without = write_combined(tmp_path / "without", [(PLAIN, [7])])
    odd = library_on(tmp_path / "odd", 7, {"cpu_features": 7, "host": "odd"})
    assert built_on_all([without]) == {}
    assert built_on(odd) == {"host": "odd"}
    assert built_on_all([odd, without]) == {}

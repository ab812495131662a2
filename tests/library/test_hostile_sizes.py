"""Small libraries that claim to be vast: refused in one line, in bounded memory and time."""

import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from library_samples import edit_metadata, fix_digests

from scenario_lib.errors import LibraryError
from scenario_lib.library.library import ScenarioLibrary

Edit = Callable[[dict[str, Any]], Any]


def recipe(metadata: dict[str, Any]) -> dict[str, Any]:
    return next(iter(metadata["recipes"].values()))


def site(metadata: dict[str, Any]) -> dict[str, Any]:
    return recipe(metadata)["experiment"]["sites"][0]


# Who made them corrected every digest.
HOSTILE: dict[str, Edit] = {
    "clouds without end": lambda m: recipe(m)["randomize_kwargs"].update(
        pv_cloud_count_max=10**12, randomize_pv_profile=True
    ),
    "ramps without end": lambda m: recipe(m)["randomize_kwargs"].update(
        n_ramps_per_site_choices=[10**9], ramp_dur_min=0
    ),
    "a training trace of years": lambda m: recipe(m)["data"]["training_trace_params"].update(duration_s=1e12),
    "a training trace of steps without length": lambda m: recipe(m)["data"]["training_trace_params"].update(
        dt_s=1e-300
    ),
    "a seed of four thousand digits": lambda m: m["scenarios"][0].update(seed=10**4000),
    "a float beyond all floats": lambda m: m["scenarios"][0].update(ofo_integral=10**400),
    "a window beyond the hour": lambda m: m["scenarios"][0].update(t_control_end=10**18),
    "a window that starts nowhere": lambda m: m["scenarios"][0].update(t_control_start=-(10**18)),
    "a format of the future": lambda m: m.update(format_version=10**30),
    "names that are paths": lambda m: m["proofs"][0].update(recipe="../" * 1000 + "etc/passwd"),
    "a site that is a path": lambda m: site(m).update(name="../../etc/passwd"),
    "many replicas on few GPUs": lambda m: site(m)["models"][0].update(replicas=10**15),
    "a batch size without end": lambda m: recipe(m)["experiment"]["models"][0].update(feasible_batch_sizes=[10**30]),
    "a name nested a thousand times": lambda m: m["config"].update(system=json.loads("[" * 900 + "]" * 900)),
    "an overlay of overlays": lambda m: m["scenarios"][0].update(training_overlay={"a": {"b": {"c": [1] * 1000}}}),
    "ten thousand recipes": lambda m: m["recipes"].update({f"{n:012x}": recipe(m) for n in range(10_000)}),
    "a screening of words": lambda m: m.update(screening={"x" * 10_000: "y" * 10_000}),
}

_USE = """
import resource, sys
from pathlib import Path
from scenario_lib.errors import ScenarioLibError
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.validation.validate import ReplayOptions, validate_library

validate_library(Path(sys.argv[1]), ReplayOptions())
resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[2:]:
    outcome = "passed as good"
    try:
        for record in ScenarioLibrary(path):
            for from_numbers in (False, True):
                outcome = ScenarioLibrary(path).materialize(record, from_numbers=from_numbers) and outcome
        outcome = validate_library(Path(path), ReplayOptions()).grade.name
    except ScenarioLibError as error:
        outcome = f"{type(error).__name__} of {len(str(error))} letters" + " in lines" * ("\\n" in str(error))
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000
    print(Path(path).name, outcome, grown_mb < 200, sep="; ")
"""


def test_hostile_numbers_are_one_line_in_bounded_memory(library_path: Path, tmp_path: Path) -> None:
    """In a process of its own, whose memory nothing else has filled; the worst offender would need terabytes."""
    paths = []
    for name, edit in HOSTILE.items():
        paths.append(Path(shutil.copytree(library_path, tmp_path / name)))
        edit_metadata(paths[-1], edit)
    command = [sys.executable, "-c", _USE, str(library_path), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [line.split("; ") for line in done.stdout.splitlines()]
    assert [name for name, _, _ in lines] == list(HOSTILE)
    assert all(bounded == "True" for _, _, bounded in lines), lines
    harmless = {name for name, outcome, _ in lines if outcome in ("HELD", "passed as good")}
    assert harmless == {"a screening of words"}, lines
    assert not any("in lines" in outcome for _, outcome, _ in lines), lines


@pytest.mark.parametrize("name", ["metadata.json", "digests.json"])
def test_json_too_large_to_be_ours_is_not_read(library_path: Path, name: str) -> None:
    with (library_path / name).open("r+b") as stream:
        stream.truncate(300 * 1024**2)  # a hole, which takes no space
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LibraryError, match=f"{name}: 314572800 bytes is too large to be a library's JSON file"):
        ScenarioLibrary(library_path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kB"


def test_a_hundred_thousand_brackets_are_one_line(library_path: Path) -> None:
    (library_path / "metadata.json").write_text('{"config": ' + "[" * 100_000 + "]" * 100_000 + "}")
    fix_digests(library_path)
    with pytest.raises(LibraryError, match=r"metadata.json: cannot be read \(nested too deeply\)"):
        ScenarioLibrary(library_path)

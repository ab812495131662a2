"""What must not be loaded to open a library, to draw a scenario, or to show help."""

import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parent / "data" / "openg2g_library_ieee13"
SIMULATORS = ("opendssdirect", "dss", "numba", "torch", "matplotlib", "stable_baselines3", "pandas")


def loaded_after(code: str, names: tuple[str, ...]) -> list[str]:
    program = f"{code}\nimport sys\nprint([name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return eval(done.stdout.splitlines()[-1])


def test_opening_and_materialising_loads_no_simulator() -> None:
    code = (
        "from scenario_lib import ScenarioLibrary\n"
        f"library = ScenarioLibrary({str(LIBRARY)!r})\n"
        "scenario = library.materialize(library[0])\n"
        "assert len(library[0].ofo_voltage_pen_per_step) == 3600"
    )
    assert loaded_after(code, SIMULATORS) == []


def test_drawing_a_scenario_loads_no_simulator() -> None:
    code = (
        "from scenario_lib import load_experiment, randomize_scenario\n"
        "assert randomize_scenario(7, experiment=load_experiment('ieee34')).seed == 7"
    )
    assert loaded_after(code, (*SIMULATORS, "openg2g", "pyarrow")) == []


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_loads_next_to_nothing(arguments: list[str]) -> None:
    code = (
        "from scenario_lib.pipelines.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit as end:\n"
        "    assert end.code == 0"
    )
    assert loaded_after(code, (*SIMULATORS, "openg2g", "pyarrow", "joblib", "pydantic")) == []


@pytest.mark.parametrize("module", ["build", "look"])
def test_pictures_are_loaded_when_they_are_drawn(module: str) -> None:
    assert loaded_after(f"import scenario_lib.pipelines.{module}", ("matplotlib", "jinja2")) == []


def test_every_public_name_exists() -> None:
    import scenario_lib

    assert len(scenario_lib.__all__) > 15
    for name in scenario_lib.__all__:
        assert getattr(scenario_lib, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = scenario_lib.nothing

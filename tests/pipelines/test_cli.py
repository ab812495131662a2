"""The command line as a whole: help, mistakes, and errors of one line."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from scenario_lib.pipelines import cli

import scenario_lib

COMMANDS = sorted(cli._COMMANDS)


def test_help_lists_every_command_with_a_line(run) -> None:
    seen = run("--help")
    assert seen.exit_code == 0
    for command in COMMANDS:
        assert f"  {command} " in seen.output
    assert {"build", "validate", "info", "show", "data"} <= set(COMMANDS)


@pytest.mark.parametrize("command", [*([name] for name in COMMANDS), ["data", "fetch"], ["data", "synthesize"]])
def test_every_command_has_help(run, command: list[str]) -> None:
    for flag in ("--help", "-h"):
        seen = run(*command, flag)
        assert seen.exit_code == 0
        assert seen.output.startswith("Usage: ")
        assert len(seen.output.splitlines()) > 4
        assert seen.errors == ""


def test_help_names_the_exit_codes(run) -> None:
    build, validate = run("build", "--help").output, run("validate", "--help").output
    for text in ("0 built", "1 refused or failed", "2 usage", "5 nothing accepted", "130 interrupted"):
        assert text in build
    for text in ("0 held", "1 differs", "2 usage", "3 cannot be verified", "4 equal within tolerance"):
        assert text in " ".join(validate.split())


def test_the_version_is_that_of_the_package(run) -> None:
    from importlib.metadata import version

    assert version("scenario-lib") in run("--version").output


def test_help_is_quick_because_it_loads_no_simulator() -> None:
    code = (
        "import sys\n"
        "from scenario_lib.pipelines.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'opendssdirect', 'openg2g', 'pyarrow', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        ["bulid"],
        ["data", "steal"],
        ["build"],
        ["build", "--candidates", "three", "--out", "x"],
        ["build", "--system", "ieee13", "--out", "x"],
        ["build", "--candidates", "3", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "0", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "3", "--accept", "2", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "3", "--max-candidates", "5", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "3", "--seed-start", "-1", "--out", "x"],
        ["build", "--system", "ieee13", "--seeds", "7,x", "--out", "x"],
        ["build", "--system", "ieee13", "--seeds", "", "--out", "x"],
        ["build", "--system", "ieee13", "--seeds", "7,7", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "3", "--jobs", "0", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "3", "--timeout", "0", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "3", "--timeout", "nan", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "3", "--engine", "steam", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "3", "--set", "ramp_up_prob", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "3", "--set", "ramp_up_prob=2", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "3", "--set", "ramp_up_prob=NaN", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "3", "--set", "ramp_up_prob=half", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "3", "--set", "ramp_up=0.5", "--out", "x"],
        ["build", "--system", "ieee13", "--candidates", "3", "--set", 'min_recovery_frac="high"', "--out", "x"],
        ["validate"],
        ["validate", "x", "--replay", "some"],
        ["validate", "x", "--replay", "-1"],
        ["validate", "x", "--timeout", "-5"],
        ["info"],
        ["show"],
        ["show", "seven"],
        ["show", "7"],
        ["show", "7", "--library", "x", "--system", "ieee13"],
        ["data", "fetch"],
        ["data", "synthesize", "--out", "x", "--seed", "-1"],
    ],
    ids=" ".join,
)
def test_a_mistake_in_the_command_exits_2_without_a_traceback(run, arguments, tmp_path: Path, monkeypatch) -> None:
    with monkeypatch.context() as context:
        context.chdir(tmp_path)
        seen = run(*arguments)
    assert seen.exit_code == 2, seen.errors
    assert "Error: " in seen.errors
    assert "Traceback" not in seen.errors
    assert seen.output == ""
    assert list(tmp_path.iterdir()) == [], "nothing was started"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["build", "--system", "ieee14", "--candidates", "1", "--out", "x"], "expected one of ieee123, ieee13, ieee34"),
        (["build", "--system", "own.toml", "--candidates", "1", "--out", "x"], "own.toml: no such file"),
        (["build", "--config", "recipe.toml", "--out", "x"], "recipe.toml: no such file; give the path of a TOML file"),
        (["build", "--system", "ieee13", "--candidates", "1", "--specs-dir", "s", "--out", "x"], "no such directory"),
        (["validate", "absent"], "absent: no such directory; give the path of a library"),
        (["validate", "."], "no such file; a library directory has one, so this is not a library"),
        (["info", "absent"], "absent: no such directory; give the path of a library"),
        (["show", "7", "--library", "absent"], "absent: no such directory"),
        (["show", "7", "--system", "ieee14"], "expected one of ieee123, ieee13, ieee34"),
        (["show", "7", "--config", "recipe.toml"], "recipe.toml: no such file"),
    ],
)
def test_what_is_not_there_is_one_line_with_the_remedy(run, arguments, text: str, tmp_path: Path, monkeypatch) -> None:
    with monkeypatch.context() as context:
        context.chdir(tmp_path)
        seen = run(*arguments)
    assert seen.exit_code == 1
    line = seen.errors.replace("\r", "\n").splitlines()[-1]
    assert line.startswith("Error: ")
    assert text in line
    assert "Traceback" not in seen.errors
    assert seen.output == ""


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["biuld"], "no command 'biuld'; did you mean 'build'?"),
        (["Validate", "x"], "no command 'Validate'; did you mean 'validate'"),
        (["evalute", "x"], "did you mean 'evaluate'"),
        (["x" * 5000], "expected one of build"),
        (["build", "--system", "ieee13", "--set", "ramp_up_prop=0.2", "--out", "x"], "did you mean 'ramp_up_prob'"),
        (["build", "--system", "ieee13", "--set", "min_recovery_fraction=0.2", "--out", "x"], "'min_recovery_frac'"),
        (["train", "x", "--out", "y", "--set", "gama=0.2"], "did you mean 'gamma'?"),
        (["train", "x", "--out", "y", "--reward", "w_voltag=2"], "did you mean 'w_voltage'?"),
        (["train", "x", "--out", "y", "--set", "gamma=7"], "command line: ppo: gamma is 7"),
        (["train", "x", "--out", "y", "--set", "n_steps=1e99"], "command line: ppo.n_steps is 1e+99; expected a whole"),
        (["train", "x", "--out", "y", "--envs", "100000000"], "envs is 100000000; expected at most 10000"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)
def test_a_misspelt_word_is_told_what_was_probably_meant(run, arguments, hint: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = run(*arguments)
    assert seen.exit_code == 2, seen.errors
    assert hint in seen.errors
    assert len(seen.errors) < 1500
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_system_is_one_line(run, tmp_path: Path, monkeypatch) -> None:
    from scenario_lib.pipelines import look as info

    def full(path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(info, "library_info", full)
    seen = run("info", tmp_path)
    assert (seen.exit_code, seen.errors) == (1, f"Error: {tmp_path}: No space left on device\n")


def test_an_error_that_nobody_foresaw_keeps_its_traceback(tmp_path: Path, monkeypatch) -> None:
    from scenario_lib.pipelines import look as info

    def broken(_: Path) -> None:
        raise ZeroDivisionError("a defect of ours")

    monkeypatch.setattr(info, "library_info", broken)
    with pytest.raises(ZeroDivisionError, match="a defect of ours"):
        cli.main(["info", str(tmp_path)])


def test_the_console_script_is_installed_beside_python() -> None:
    script = Path(sys.executable).with_name("scenario-lib")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("scenario-lib, version ")
    assert scenario_lib.__name__ == "scenario_lib"


def test_what_the_project_logs_is_on_standard_error_once(run, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        run("models", "list", "--gpu", "none")
    capsys.readouterr()
    logging.getLogger("scenario_lib.simulation").info("half a minute")
    assert capsys.readouterr().err == "half a minute\n"

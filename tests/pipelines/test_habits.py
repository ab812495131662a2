"""Habits that a command line is expected to have: versions, quiet and verbose, strict JSON, completion, no colour."""

import json
import logging
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from scenario_lib.pipelines import cli, console

COMMANDS = sorted(cli._COMMANDS)
SCRIPT = Path(sys.executable).with_name("scenario-lib")
HEAVY = {"openg2g", "opendssdirect", "pyarrow", "pydantic", "numba", "tqdm", "joblib", "scipy", "pandas"}


def strict_json(text: str):
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_version_names_what_results_depend_on(run) -> None:
    seen = run("--version")
    assert seen.exit_code == 0
    lines = seen.output.splitlines()
    assert lines[0] == f"scenario-lib, version {version('scenario-lib')}"
    for distribution in ("openg2g", "numpy", "numba", "dss-python-backend"):
        assert sum(version(distribution) in line and distribution in line for line in lines) == 1


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["completion", "bash"]])
def test_as_a_module_it_is_the_same_command(arguments: list[str]) -> None:
    runs = [
        subprocess.run([*start, *arguments], capture_output=True, text=True, check=True).stdout
        for start in ([SCRIPT], [sys.executable, "-m", "scenario_lib"])
    ]
    assert runs[0].replace("scenario-lib", "") == runs[1].replace("python -m scenario_lib", "").replace(
        "scenario-lib", ""
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["completion", "zsh"], ["models", "--help"]])
def test_what_only_prints_text_loads_no_engine(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom scenario_lib.pipelines.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as end:\n    assert not end.code\n"
        f"print(sorted({HEAVY!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_importing_the_library_loads_no_engine() -> None:
    code = f"import sys, scenario_lib\nprint(sorted({HEAVY | {'click'}!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_each_shell(run, shell: str, tmp_path: Path) -> None:
    seen = run("completion", shell)
    assert seen.exit_code == 0
    assert f"_SCENARIO_LIB_COMPLETE={shell}_complete" in seen.output
    if shutil.which(shell):
        (tmp_path / "script").write_text(seen.output, encoding="utf-8")
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)


def completed(words: str) -> list[str]:
    environment = {**os.environ, "_SCENARIO_LIB_COMPLETE": "bash_complete", "COMP_WORDS": f"scenario-lib {words}"}
    environment["COMP_CWORD"] = str(len(words.split(" ")))
    done = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_commands_and_options_are_completed() -> None:
    assert completed("mod") == ["models"]
    assert sorted(completed("")) == COMMANDS
    assert "--json" in completed("models list --j")
    assert "--quiet" in completed("--q")


def test_a_command_is_completed_without_loading_it(monkeypatch) -> None:
    def refuse(name: str, package: str) -> None:
        raise AssertionError(f"{name} was loaded")

    monkeypatch.setattr(cli, "import_module", refuse)
    found = cli.group.shell_complete(cli.group.make_context("scenario-lib", [], resilient_parsing=True), "dat")
    assert [(item.value, item.help) for item in found] == [("data", cli._COMMANDS["data"][1])]


def test_json_and_nothing_else_is_on_stdout(run, built_library: Path, village_file: Path) -> None:
    for arguments in (
        ["info", built_library],
        ["validate", built_library],
        ["show", "7", "--library", built_library],
        ["models", "list"],
        ["models", "show", "Llama-3.1-8B"],
        ["feeder", "check", village_file],
    ):
        seen = run(*arguments, "--json")
        assert seen.exit_code == 0, arguments
        assert strict_json(seen.output)
        assert seen.errors == ""


def test_a_number_that_is_not_finite_is_null(capsys) -> None:
    console.echo_json({"a": [float("nan"), float("-inf"), 1.5], "b": (2, None)})
    assert strict_json(capsys.readouterr().out) == {"a": [None, None, 1.5], "b": [2, None]}


def build(run, out: Path, *flags: str, options: tuple[str, ...] = ()):
    return run(*flags, "build", "--system", "ieee13", "--seeds", "7", "--jobs", "1", "--out", out, *options)


def test_quiet_says_nothing_but_the_result(run, tmp_path: Path) -> None:
    seen = build(run, tmp_path / "library", "--quiet", options=("--json",))
    assert (seen.exit_code, seen.errors) == (0, "")
    facts = strict_json(seen.output)
    assert (facts["path"], facts["accepted"], facts["reasons"]) == (str(tmp_path / "library"), 1, {"accepted": 1})
    assert facts["recovery"][0] == facts["recovery"][2] > 0.9


def test_verbose_says_what_is_done(run, tmp_path: Path) -> None:
    seen = build(run, tmp_path / "library", "-v")
    assert seen.exit_code == 0
    lines = [line.rpartition("\r")[2] for line in seen.errors.split("\n")]
    assert any(line.endswith("library: 1 workers on engine compiled") for line in lines)
    assert "published with 1 records" in seen.errors
    assert "OfflineDatacenter" not in seen.errors
    assert "OfflineDatacenter" in build(run, tmp_path / "more", "-vv").errors


def test_quiet_and_verbose_exclude_each_other(run) -> None:
    seen = run("-q", "-v", "models", "list")
    assert (seen.exit_code, seen.output) == (2, "")
    assert "--quiet and --verbose exclude each other" in seen.errors


@pytest.mark.parametrize(("flags", "shown"), [([], True), (["-v"], True), (["-q"], False)])
def test_a_warning_of_the_library_is_a_line_unless_quiet(run, monkeypatch, flags: list[str], shown: bool) -> None:
    from scenario_lib.pipelines import look as info

    def warn(path: Path) -> None:
        logging.getLogger("scenario_lib.anything").warning("%s: look here", path)
        raise OSError("end of the test")

    monkeypatch.setattr(info, "library_info", warn)
    errors = run(*flags, "info", "there").errors.splitlines()
    assert errors == [*(["warning: there: look here"] if shown else []), "Error: end of the test"]


def test_the_library_alone_logs_nowhere() -> None:
    code = "import logging, scenario_lib\nlogging.getLogger('scenario_lib.screening.build').error('not asked for')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("arguments", [["--help"], ["models", "list"], ["info", "absent"], ["bulid"]])
def test_nothing_is_coloured_even_on_a_terminal(arguments: list[str]) -> None:
    """NO_COLOR asks for what is the case anyway."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "FORCE_COLOR": "1"}
    process = subprocess.Popen([SCRIPT, *arguments], stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    process.wait()
    assert len(shown) > 40
    assert b"\x1b[" not in shown


def _helps(group: click.Group, *names: str) -> Iterator[tuple[str, str]]:
    """Every command below a group with its help, and the group's own."""
    yield " ".join(names), group.help or ""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            yield from _helps(command, *names, name)
        else:
            yield " ".join((*names, name)), command.help or ""


HELPS = dict(_helps(cli.group))


@pytest.mark.parametrize("name", HELPS)
def test_help_has_exit_codes_and_an_example_of_that_command(name: str) -> None:
    assert "Exit codes: 0 " in HELPS[name]
    assert f"scenario-lib {name}".strip() in re.search(r"Examples?:.*", HELPS[name], re.DOTALL).group()


def _options_without_a_subject() -> list[str]:
    return [
        f"{name} {option.opts[0]}: {option.help}"
        for name in HELPS
        for option in _command(name).params
        if isinstance(option, click.Option) and option.help is not None
        if re.match(r"(Of|Or|As|Another|With|The same)\b", option.help) and not option.help.startswith("With --run: ")
    ]


def _command(name: str) -> click.Command:
    command: click.Command = cli.group
    for part in name.split():
        command = command.get_command(click.Context(command), part)
    return command


def test_help_of_options_is_no_fragment() -> None:
    assert _options_without_a_subject() == []

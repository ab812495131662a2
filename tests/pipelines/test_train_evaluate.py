"""The commands `train` and `evaluate`: what they print, write and refuse."""

import json
from pathlib import Path

import pytest
from scenario_lib.pipelines import cli
from scenario_lib.pipelines.learn import _lines as train_lines

from scenario_lib.learning.run_folder import TrainingResult

DATA = Path(__file__).parents[1] / "data"
LIBRARY = DATA / "openg2g_library_ieee13"


def run(*args: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of the command line."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--set", "gama=0.9"], 2, "setting 'gama' is not known; did you mean 'gamma'?"),
        (["--set", "gamma"], 2, "--set is 'gamma'; expected NAME=VALUE"),
        (["--reward", "w_switch=much more"], 2, "--reward w_switch: 'much more' is not a value"),
        (["--steps", "0"], 2, "steps is 0; expected at least 1"),
        (["--action", "free"], 2, "action is 'free'; expected one of delta, coupled"),
        (["--config", "missing.toml"], 1, "missing.toml: no such file"),
        (["--engine", "fast"], 2, "engine is 'fast'; expected one of compiled, reference"),
        (["--engine", "reference"], 2, "command line: envs is 8; expected 1 on the reference engine"),
    ],
)
def test_train_refuses_bad_settings_in_one_line(
    options: list[str], code: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = run("train", LIBRARY, "--out", tmp_path / "run", *options, capsys=capsys)
    errors = [line for line in err.splitlines() if line.startswith("Error")]
    assert (found, out, len(errors)) == (code, "", 1)
    assert text in errors[0]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("episodes", "mean", "line"),
    [
        (0, None, "episodes            0: the run was shorter than one (environments share the steps); give more"),
        (12, -3.5, "episodes            12, mean return of the last -3.5"),
    ],
)
def test_a_run_without_a_whole_episode_says_so(episodes: int, mean: float | None, line: str) -> None:
    lines = list(train_lines(TrainingResult(Path("p"), 512, episodes, mean, 100.0)))
    assert lines[1].startswith(line)


def test_a_missing_extra_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import scenario_lib.learning.environments as module

    monkeypatch.setattr(module, "find_spec", lambda _: None)
    code, _, err = run("train", LIBRARY, "--out", tmp_path / "run", capsys=capsys)
    assert code == 1
    assert "pip install 'scenario-lib[train]'" in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--baselines", "best"], 1, "baseline 'best' is not known; expected among none, ofo, rule-based"),
        (["--baselines", ""], 2, "nothing to evaluate"),
        (["--records", "some"], 2, "--records is 'some'; expected a number of records, or all"),
        (["--policy", "nowhere"], 1, "nowhere: has no policy.json"),
        (["--team", "nowhere,elsewhere"], 1, "nowhere: has no policy.json"),
    ],
)
def test_evaluate_refuses_in_one_line(
    options: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = run("evaluate", LIBRARY, *options, capsys=capsys)
    assert (found, out) == (code, "")
    assert text in err.splitlines()[-1]


def test_train_then_evaluate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One whole way: a policy of 32 steps, refused on its own library, and compared there if that is allowed."""
    pytest.importorskip("stable_baselines3", reason="needs the extra: pip install 'scenario-lib[train]'")
    config = tmp_path / "settings.toml"
    config.write_text("envs = 1\n[environment]\ntruncate_episode = false\n[ppo]\nn_steps = 32\nbatch_size = 16\n")
    specs = ("--specs-dir", DATA / "specs")
    options = ("--config", config, "--steps", 32, "--reward", "w_switch=0.02", "--action", "coupled", *specs)
    code, out, _ = run("train", LIBRARY, "--out", tmp_path / "tiny", *options, capsys=capsys)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["steps", "episodes", "policy"]
    card = json.loads((tmp_path / "tiny" / "policy" / "policy.json").read_text())
    assert (card["settings"]["reward"]["w_switch"], card["settings"]["environment"]["action"]) == (0.02, "coupled")

    asked = ("evaluate", LIBRARY, "--policy", tmp_path / "tiny", "--baselines", "none", "--records", 1, *specs)
    code, _, err = run(*asked, capsys=capsys)
    assert code == 1
    assert "policy tiny was trained on 3 seeds (7, 2007, 6007)" in err
    code, out, _ = run(*asked, "--allow-shared-seeds", "--json", "--out", tmp_path / "compared", capsys=capsys)
    assert code == 0
    found = json.loads(out)
    assert found["warnings"] == ["policy tiny was trained on 3 seeds (7, 2007, 6007) of this library"]
    assert [row["control"] for row in found["summary"]] == ["none", "tiny"]
    assert found["summary"][0]["removed_frac"] == 0.0
    assert "tiny" in (tmp_path / "compared" / "table.txt").read_text()


def test_rollouts_are_written_and_foreign_files_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rollouts.parquet"
    given = (LIBRARY, "--specs-dir", DATA / "specs", "--records", 1, "--jobs", 1, "--out", out)
    code, text, _ = run("rollouts", *given, "--policy", "none", "--policy", "deadband", "--json", capsys=capsys)
    assert (code, json.loads(text)) == (0, {"path": str(out), "rollouts": 2, "failed": []})
    (tmp_path / "mine.txt").write_text("words")
    code, _, errors = run(
        "rollouts", LIBRARY, "--policy", "none", "--out", tmp_path / "mine.txt", "--records", 1, capsys=capsys
    )
    assert (code, "is no table of rollouts" in errors) == (1, True)
    code, _, errors = run("rollouts", LIBRARY, "--policy", "offo", "--out", out, capsys=capsys)
    assert code == 1
    assert "offo" in errors

"""Evaluations: rollouts under several controls, equal for any number of workers, and refusals."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from library_samples import write_sample
from policy_samples import WritePolicy

from scenario_lib.errors import InvalidSettingError, PolicyError, SharedSeedsError, UnknownNameError
from scenario_lib.execution.tasks import RunOptions
from scenario_lib.learning.comparison import Figures, write_comparison
from scenario_lib.learning.environments import training_library
from scenario_lib.learning.evaluation import EvaluationOptions, evaluate
from scenario_lib.learning.policy import TrainingLibrary
from scenario_lib.library.library import ScenarioLibrary
from scenario_lib.simulation.engines import Engine


def test_figures_are_those_of_the_library_and_do_not_depend_on_workers(
    policy_on_disk: WritePolicy, library_path: Path, specs_dir: Path, tmp_path: Path
) -> None:
    policy = policy_on_disk("mine")
    seen: list[tuple[int, int]] = []
    for jobs in (1, 2):
        options = EvaluationOptions((policy,), ("none",), 1, specs_dir, run=RunOptions(jobs))
        comparison = evaluate(library_path, options, lambda done, total: seen.append((done, total)))
        write_comparison(tmp_path / str(jobs), comparison)
    assert seen == [(1, 2), (2, 2)] * 2
    for name in ("scenarios.parquet", "summary.parquet", "paired.parquet", "table.txt"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    none, mine = comparison.scenarios
    assert (none.seed, none.control, mine.control) == (7, "none", "mine")
    assert none.figures is not None
    assert mine.figures is not None
    assert none.figures.batch_changes == 0 < mine.figures.batch_changes
    assert not np.isclose(none.figures.integral_pu_s, mine.figures.integral_pu_s)


def test_both_engines_follow_a_changed_tuning_of_ofo_and_both_tunings_are_told(
    library_path: Path, specs_dir: Path, tmp_path: Path
) -> None:
    """The library's own experiment tunes OFO in an evaluation; screening's two figures are said beside it."""
    (recipe,) = ScenarioLibrary(library_path).recipes.values()
    shipped = recipe.experiment
    tuned = replace(shipped, ofo=replace(shipped.ofo, sensitivity_update_interval=60, primal_step_size=0.02))
    libraries = {
        name: write_sample(tmp_path / name, [(replace(recipe, experiment=experiment), [7])])
        for name, experiment in (("shipped", shipped), ("tuned", tuned))
    }

    def figures(name: str, engine: str) -> Figures:
        options = EvaluationOptions((), ("ofo",), 1, specs_dir, engine=Engine(engine))
        comparison = evaluate(libraries[name], options)
        every = {"shipped": 300, "tuned": 60}[name]
        assert comparison.warnings == ()
        (note,) = comparison.notes
        evaluated, screened = note.split("; ")
        assert evaluated == f"ofo: as the experiment has it, w_throughput 1e-05, sensitivity every {every} s"
        assert screened == "screening had w_throughput 0.0001, sensitivity every 300 s"
        assert comparison.scenarios[0].figures is not None
        return comparison.scenarios[0].figures

    found, wanted = figures("tuned", "compiled"), figures("tuned", "reference")
    assert found.batch_changes == wanted.batch_changes > 0
    assert found.integral_pu_s == pytest.approx(wanted.integral_pu_s, rel=1e-5, abs=1e-5)
    assert found.violation_time_s == wanted.violation_time_s
    assert abs(found.integral_pu_s - figures("shipped", "compiled").integral_pu_s) > 1e-3


def test_controllers_stand_beside_policies_in_any_number_of_workers(
    library_path: Path, specs_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_rules.py").write_text(
        "def down(now):\n    return {name: sizes[0] for name, sizes in now.feasible_batch_sizes.items()}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # worker processes import the module too
    controllers = ("own_rules:down", "deadband")
    tables = []
    for jobs in (1, 2):
        options = EvaluationOptions((), ("none", "always-smallest"), 1, specs_dir, controllers=controllers)
        comparison = evaluate(library_path, replace(options, run=RunOptions(jobs)))
        assert not comparison.failed
        tables.append({row.control: row.figures for row in comparison.scenarios})
    assert tables[0] == tables[1]
    assert list(tables[0]) == ["none", "always-smallest", "own_rules:down", "deadband"]
    assert tables[0]["own_rules:down"] == tables[0]["always-smallest"]
    assert tables[0]["deadband"].integral_pu_s < tables[0]["none"].integral_pu_s


def test_a_policy_trained_on_the_library_is_refused(
    policy_on_disk: WritePolicy, library_path: Path, specs_dir: Path
) -> None:
    records: TrainingLibrary = training_library(ScenarioLibrary(library_path))
    with pytest.raises(SharedSeedsError, match="--allow-shared-seeds"):
        evaluate(library_path, EvaluationOptions((policy_on_disk("mine", records),), specs_dir=specs_dir))


def test_two_controls_of_one_name_are_refused(policy_on_disk: WritePolicy, library_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match="two controls are called 'none'"):
        evaluate(library_path, EvaluationOptions((policy_on_disk("none"),)))


def test_a_policy_of_another_feeder_is_refused(policy_on_disk: WritePolicy, library_path: Path) -> None:
    from scenario_lib.learning.policy import CARD

    folder = policy_on_disk()
    card = folder / CARD
    card.write_text(card.read_text().replace('"feeder": "ieee13"', '"feeder": "ieee34"'))
    with pytest.raises(PolicyError, match=r"trained on feeder ieee34; .* is a library on ieee13"):
        evaluate(library_path, EvaluationOptions((folder,)))


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="baseline 'best' is not known"):
        EvaluationOptions(baselines=("best",))
    with pytest.raises(InvalidSettingError, match="nothing to evaluate"):
        EvaluationOptions(baselines=())
    with pytest.raises(InvalidSettingError, match="records is 0"):
        EvaluationOptions(records=0)

"""What is loaded when, and what is said where the extra is missing."""

import subprocess
import sys

import pytest

from scenario_lib.errors import MissingExtraError
from scenario_lib.learning import train as train_module  # noqa: F401 - the package's lazy name


def test_policies_and_evaluations_load_no_pytorch() -> None:
    code = (
        "import sys, scenario_lib, scenario_lib.learning as l\n"
        "assert not any(n.startswith('scenario_lib.learning.') for n in sys.modules)\n"
        "l.TrainedPolicy, l.PolicyController, l.evaluate, l.EvaluationOptions, l.TrainingSettings, l.train\n"
        "assert not {'torch', 'stable_baselines3'} & set(sys.modules), 'loaded'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import scenario_lib.learning.environments as module

    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'scenario-lib\[train\]'"):
        module.require_extra()

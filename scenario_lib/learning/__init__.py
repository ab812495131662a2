"""Policies trained on a library, and how they compare with no control, a rule, and OFO on another library.

`TrainedPolicy` and `evaluate` need numpy only; `train` needs the extra `train` (Stable-Baselines3 on PyTorch), which is
loaded when training starts.
"""

from typing import TYPE_CHECKING

from scenario_lib._lazy import lazy_names

if TYPE_CHECKING:
    from scenario_lib.learning.any_trainer import EnvironmentPolicy as EnvironmentPolicy
    from scenario_lib.learning.any_trainer import export_sb3 as export_sb3
    from scenario_lib.learning.evaluation import EvaluationOptions as EvaluationOptions
    from scenario_lib.learning.evaluation import evaluate as evaluate
    from scenario_lib.learning.policy import PolicyController as PolicyController
    from scenario_lib.learning.policy import TrainedPolicy as TrainedPolicy
    from scenario_lib.learning.settings import TrainingSettings as TrainingSettings
    from scenario_lib.learning.training import TrainingRun as TrainingRun
    from scenario_lib.learning.training import train as train
    from scenario_lib.learning.trajectories import write_rollouts as write_rollouts

_HOME = {
    "EnvironmentPolicy": "any_trainer",
    "EvaluationOptions": "evaluation",
    "PolicyController": "policy",
    "TrainedPolicy": "policy",
    "TrainingRun": "training",
    "TrainingSettings": "settings",
    "evaluate": "evaluation",
    "export_sb3": "any_trainer",
    "train": "training",
    "write_rollouts": "trajectories",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME)

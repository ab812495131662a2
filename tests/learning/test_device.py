"""A device that PyTorch does not have is refused before a run begins."""

import pytest

from scenario_lib.errors import InvalidSettingError

pytest.importorskip("torch", reason="the extra `train` is not installed")

from scenario_lib.learning.settings import TrainingSettings
from scenario_lib.learning.training import TrainingRun, train


@pytest.mark.parametrize("device", ["cuda", "moon", "cuda:99"])
def test_a_device_that_is_not_there(tmp_path, device):
    import torch

    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.raises(InvalidSettingError, match=f"device is '{device}', which PyTorch cannot use here"):
        train(TrainingRun(tmp_path / "none", tmp_path / "out", TrainingSettings(), device=device))
    assert not (tmp_path / "out").exists()

"""Run commands in this process, and collect what a person would see."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from scenario_lib.pipelines.cli import main


class Seen(NamedTuple):
    """What a command left behind."""

    exit_code: int
    output: str
    errors: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Seen]:
    """Run `scenario-lib` with the given arguments."""

    def command(*arguments: object) -> Seen:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Seen(int(ended.value.code or 0), captured.out, captured.err)

    return command

"""Run commands in this process, and collect what a person would see."""

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from scenario_lib.pipelines.cli import main
from scenario_lib.pipelines.console import _HANDLER, _LEVELS


class Seen(NamedTuple):
    """What a command left behind."""

    exit_code: int
    output: str
    errors: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Seen]]:
    """Run `scenario-lib` with the given arguments; what it made loggers do ends with the test."""

    def command(*arguments: object) -> Seen:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Seen(int(ended.value.code or 0), captured.out, captured.err)

    yield command
    for name in _LEVELS:
        logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger(name).removeHandler(_HANDLER)

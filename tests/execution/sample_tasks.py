"""Tasks that misbehave in every way a candidate can; in a module of their own, which workers import."""

import os
import signal
import sys
import time
from pathlib import Path


def square_slowly(number: int) -> int:
    time.sleep(0.05)
    return number * number


def raise_on_two(number: int) -> int:
    if number == 2:
        raise ValueError("two\n  is not allowed")
    return number


def exit_on_two(number: int) -> int:
    if number == 2:
        sys.exit(3)
    return number


def loop_on_two(number: int) -> int:
    while number == 2:
        number = 2
    return number


def hang_on_two(number: int) -> int:
    """Native code that never returns to Python looks like this from outside: the alarm has no effect."""
    if number == 2:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        time.sleep(60)
    return number


def die_on_two(number: int) -> int:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.05)
    return number


def die_on_every_third(number: int) -> int:
    if number % 3 == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_the_first_time(marker: str) -> str:
    """Kill the worker unless the marker file is there, which is written first."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def thread_variables(_: int) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.endswith("_NUM_THREADS")}


def process_and_parent(_: int) -> tuple[int, int]:
    time.sleep(0.2)
    return os.getpid(), os.getppid()


def sleep_seconds(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def write_file(path: str) -> None:
    time.sleep(0.2)
    Path(path).write_text("written")

"""A limit on how long one task may take, kept inside the worker that runs it.

Two lines of defence: an alarm that interrupts Python code with an exception, and, for a hang in native code that
never returns to Python, a watchdog that ends the process. The parent sees that as a dead worker.
"""

import faulthandler
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scenario_lib.errors import TaskTimeoutError


@contextmanager
def deadline(timeout_s: float | None, grace_s: float) -> Iterator[None]:
    """Run a block for at most `timeout_s` seconds; None means without limit.

    A block that never returns to Python takes its process with it `grace_s` seconds later.

    Raises:
        TaskTimeoutError: The block took longer.
    """
    # Signals reach the main thread only; a backend that runs tasks in other threads has the watchdog alone.
    if timeout_s is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a path object opens the same file
        faulthandler.dump_traceback_later(timeout_s + grace_s, exit=True, file=nowhere)
        previous = signal.signal(signal.SIGALRM, lambda *_: _raise_timeout(timeout_s))
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
            faulthandler.cancel_dump_traceback_later()


def _raise_timeout(timeout_s: float) -> Any:
    raise TaskTimeoutError(f"took longer than {timeout_s:g} s")

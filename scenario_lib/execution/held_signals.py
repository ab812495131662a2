"""Signals that wait for the end of a block, as what runs in it does not survive an exception at any moment."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_RAISING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(signal, name))
"""Those whose handlers commonly raise: KeyboardInterrupt, an exit, a timeout."""


@contextmanager
def signals_held() -> Iterator[None]:
    """Ctrl-C and the like wait until the block ends.

    numba turns arguments into machine words with Python code of its own: an exception that a handler raises there
    becomes another one, or crashes the process. Elsewhere than in the main thread handlers never run.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    handlers = {number: handler for number in _RAISING if callable(handler := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, lambda *signal_and_frame: came.append(signal_and_frame))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number, frame in came:
            handlers[signal.Signals(number)](number, frame)

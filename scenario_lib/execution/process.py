"""Guards inside one process: it ends with its parent, a task ends at its deadline, locks survive a fork, signals wait;
and a few threads that wait for work of a tenth of a millisecond, which a pool takes as long to hand out.

A deadline has two lines of defence: an alarm that interrupts Python code with an exception, and, for a hang in native
code that never returns to Python, a watchdog that ends the process. The parent sees that as a dead worker.
"""

import faulthandler
import functools
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

from scenario_lib.errors import TaskTimeoutError

_LOOK_EVERY_S = 1.0


@functools.cache
def end_with_parent(parent: int) -> None:
    """Watch, from now on, the process that hands out tasks, and end this one when it is gone.

    A parent that was killed could not end its workers itself, and they would wait for ever.
    """
    threading.Thread(target=_watch, args=(parent,), name="end with parent", daemon=True).start()


def _watch(parent: int) -> None:
    # A process whose parent ends is given another one.
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    os._exit(1)


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
        previous = signal.signal(signal.SIGALRM, lambda _, frame: _raise_timeout(timeout_s, frame))
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
            faulthandler.cancel_dump_traceback_later()


_NOT_YET_S = 0.01


def _raise_timeout(timeout_s: float, frame: FrameType | None) -> None:
    """Between kernels only, see `signals_held`: where numba is at work, the alarm comes again a moment later."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] == "numba":
            signal.setitimer(signal.ITIMER_REAL, _NOT_YET_S)
            return
        frame = frame.f_back
    raise TaskTimeoutError(f"took longer than {timeout_s:g} s")


def fork_safe_lock() -> "threading.RLock":
    """A lock that this process holds while it forks: what it guards is whole in the child, and it is free in both."""
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


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


Job = Callable[[], None]


class ThreadTeam:
    """Threads that work beside the calling one, until this object is gone.

    They start with the first work that they are given, and anew in a process that was forked since. A
    `concurrent.futures.ThreadPoolExecutor` in its place, with a lock and a future for every job, makes a step of 64
    environments on two threads 8 % (fastest) to 9 % (median) longer, measured side by side on ieee13.

    Args:
        n_helpers: Threads beside the calling one.
    """

    def __init__(self, n_helpers: int) -> None:
        self._n_helpers = n_helpers
        self._tasks: list[SimpleQueue[Job | None]] = []
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._process: int | None = None

    def run(self, jobs: Sequence[Job]) -> None:
        """Do all jobs, at most one per thread, the first of them in this thread; raises what one of them raises.

        Ctrl-C waits until all are done: else the other threads would still work on what the next step fills in.
        """
        if len(jobs) == 1:
            jobs[0]()
            return
        with signals_held():
            if self._process != os.getpid():
                self._start()
            for tasks, job in zip(self._tasks, jobs[1:], strict=False):
                tasks.put(job)
            try:
                jobs[0]()
            finally:
                errors = [self._done.get() for _ in jobs[1:]]
        for error in errors:
            if error is not None:
                raise error

    def _start(self) -> None:
        self._process, self._done = os.getpid(), SimpleQueue()
        self._tasks = [SimpleQueue() for _ in range(self._n_helpers)]
        for tasks in self._tasks:
            threading.Thread(target=_work, args=(tasks, self._done), daemon=True).start()
        weakref.finalize(self, _dismiss, self._tasks)


def _work(tasks: "SimpleQueue[Job | None]", done: "SimpleQueue[BaseException | None]") -> None:
    while (job := tasks.get()) is not None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for it
            done.put(error)
        else:
            done.put(None)
        del job  # what it works on may be gone before the next comes


def _dismiss(tasks: "Sequence[SimpleQueue[Job | None]]") -> None:
    for one in tasks:
        one.put(None)

"""End a worker whose parent is gone: killed, it could not end its workers itself, and they would wait for ever."""

import functools
import os
import threading
import time

_LOOK_EVERY_S = 1.0


@functools.cache
def end_with_parent(parent: int) -> None:
    """Watch, from now on, the process that hands out tasks, and end this one when it is gone."""
    threading.Thread(target=_watch, args=(parent,), name="end with parent", daemon=True).start()


def _watch(parent: int) -> None:
    # A process whose parent ends is given another one.
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY_S)
    os._exit(1)

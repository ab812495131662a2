"""A lock that a forked process finds free, whatever the threads of its parent were at."""

import os
import threading


def fork_safe_lock() -> "threading.RLock":
    """A lock that this process holds while it forks: what it guards is whole in the child, and it is free in both."""
    lock = threading.RLock()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock

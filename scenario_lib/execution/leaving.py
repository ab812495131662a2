"""Leave a run of joblib before its end, which is what a build does that has enough, or that is interrupted."""

import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def left_quietly(outcomes: Generator[Any, None, None]) -> Iterator[None]:
    """Close a generator of joblib's in the end, without its advice about tasks that were still under way."""
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*still being processed by the workers", UserWarning)
            outcomes.close()

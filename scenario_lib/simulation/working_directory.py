"""OpenDSS's `Compile` moves the process into the circuit's folder; this moves it back."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def working_directory_kept() -> Iterator[None]:
    """Restore the working directory on leaving, however the block is left."""
    before = Path.cwd()
    try:
        yield
    finally:
        os.chdir(before)

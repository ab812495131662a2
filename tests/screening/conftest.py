"""No build that a test started goes on after it."""

from collections.abc import Iterator

import pytest
from build_commands import end_started


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    yield
    end_started()

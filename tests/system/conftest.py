"""A folder and a fleet for each test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.system.fleet import Fleet


@pytest.fixture
def fleet_of(tmp_path: Path) -> Iterator[Callable[..., Fleet]]:
    """Make a fleet with the options that the test needs; its workers are gone when the test ends."""
    with ExitStack() as stack:

        def make(**options: Any) -> Fleet:
            return stack.enter_context(Fleet(tmp_path, **options))

        yield make

"""A folder and a fleet for each test, on SQLite unless the test says `ON_EACH`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.system.fleet import Fleet


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """Of the database."""
    return getattr(request, "param", "sqlite")


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> str | None:
    """Of the database; None is a file in the fleet's folder."""
    return request.getfixturevalue("database") if kind == "postgres" else None


@pytest.fixture
def fleet_of(tmp_path: Path, url: str | None) -> Iterator[Callable[..., Fleet]]:
    """Make a fleet with the options that the test needs; its workers are gone when the test ends."""
    with ExitStack() as stack:

        def make(**options: Any) -> Fleet:
            return stack.enter_context(Fleet(tmp_path, url=url, **options))

        yield make

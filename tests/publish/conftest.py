"""Where these tests publish to: a SQLite file of their own, or this process's memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.leaks import nothing_left


@pytest.fixture
def anyio_backend() -> str:
    """What does not wait runs the same on every loop; who waits asks for trio too."""
    return "asyncio"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is, once somebody has made it."""
    return tmp_path / "streams.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
async def nothing_is_left() -> AsyncIterator[None]:
    """Hold that the test leaves no connection, task or thread."""
    async with nothing_left(lambda: 0):
        yield

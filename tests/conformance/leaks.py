"""What a test may leave behind: SQLite connections that were not closed, tasks and threads that have not ended."""

import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

RUNNERS_TASKS = ("TestRunner.", "Runner.", "EntryQueue.")
"""What runs the tests themselves: anyio's plugin, and trio's loop."""

RUNNERS_THREADS = ("AnyIO worker thread", "Trio thread")
"""Threads that an event loop keeps for its next call."""

_connected: list[sqlite3.Connection] = []


def _remember(event: str, args: tuple[object, ...]) -> None:
    if event == "sqlite3.connect/handle":
        connection = args[0]
        assert isinstance(connection, sqlite3.Connection)
        _connected.append(connection)


# A reference of our own, since a connection that nobody refers to any more closes itself, and is no less a leak.
sys.addaudithook(_remember)


def is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


@asynccontextmanager
async def nothing_left(kept: Callable[[], int]) -> AsyncIterator[None]:
    """Hold that the block leaves nothing but `kept()` open connections."""
    _connected.clear()
    threads = set(threading.enumerate())
    yield
    still_open = sum(is_open(connection) for connection in _connected)
    _connected.clear()
    assert still_open == kept(), f"{still_open} connections are open, {kept()} should be"
    tasks = [str(getattr(task.coro, "__qualname__", task.name)) for task in anyio.get_running_tasks()]
    left = [name for name in tasks if not name.startswith(RUNNERS_TASKS)]
    assert not left, f"tasks run on: {left}"
    new = set(threading.enumerate()) - threads
    names = [thread.name for thread in new if not thread.name.startswith(RUNNERS_THREADS)]
    assert not names, f"threads run on: {names}"

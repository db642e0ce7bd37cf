"""A SQLite file, a store on it, and the look behind its back that only these tests take."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from streams.stores.rows import Held, TopicRow
from streams.stores.sqlite.store import SqliteStore
from tests.conformance.clock import Clock
from tests.conformance.leaks import nothing_left
from tests.conformance.samples import BILLING, ORDERS, member, take
from tests.stores.sqlite_file import store_on


@pytest.fixture
def anyio_backend() -> str:
    """SQLite's work is done in threads, whichever loop waits for them; a few tests ask for trio too."""
    return "asyncio"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is, once somebody has made it."""
    return tmp_path / "streams.db"


@pytest.fixture
async def nothing_is_left() -> AsyncIterator[None]:
    async with nothing_left(lambda: 0):
        yield


@pytest.fixture
async def unopened(path: Path, clock: Clock, nothing_is_left: None) -> AsyncIterator[SqliteStore]:
    """A store that gives up after 0.3 seconds of waiting for the write lock."""
    store = store_on(path, "?busy_seconds=0.3", clock=clock)
    yield store
    await store.close()


@pytest.fixture
async def store(unopened: SqliteStore) -> SqliteStore:
    await unopened.open(migrate=True, create=True)
    return unopened


@pytest.fixture
async def orders(store: SqliteStore) -> TopicRow:
    return await store.ensure_topic(ORDERS, 4, "json")


@pytest.fixture
async def held(store: SqliteStore, orders: TopicRow) -> Held:
    """Partition 0, held by ann."""
    await store.ensure_group(BILLING, ORDERS, "earliest")
    await store.register(member("ann"))
    return await take(store, "ann")


@pytest.fixture
def connection(path: Path, nothing_is_left: None) -> Iterator[sqlite3.Connection]:
    """The user's own connection to the file, in SQLite's autocommit mode."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        yield connection

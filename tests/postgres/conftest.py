"""A store on a database of the test's own, and connections beside it that hold transactions open."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import asyncpg
import pytest

from streams.stores.postgres.store import PostgresStore
from streams.stores.postgres.url import parse
from streams.stores.rows import Held, TopicRow
from tests.conformance.leaks import nothing_left
from tests.conformance.samples import BILLING, ORDERS, member, take

Connect = Callable[[], Awaitable[asyncpg.Connection]]


@pytest.fixture
def anyio_backend() -> str:
    """PostgreSQL's driver knows asyncio alone."""
    return "asyncio"


@pytest.fixture
async def store(database: str) -> AsyncIterator[PostgresStore]:
    async with nothing_left(lambda: 0):
        store = PostgresStore(parse(database))
        await store.open(migrate=True, create=True)
        yield store
        await store.close()


@pytest.fixture
async def other(store: PostgresStore) -> AsyncIterator[PostgresStore]:
    """A second store on the same database."""
    other = store.sibling()
    yield other
    await other.close()


@pytest.fixture
async def orders(store: PostgresStore) -> TopicRow:
    """A topic of four partitions."""
    return await store.ensure_topic(ORDERS, 4, "json")


@pytest.fixture
async def held(store: PostgresStore, orders: TopicRow) -> Held:
    """Partition 0 of the topic for a group, held by ann; there is bob too."""
    await store.ensure_group(BILLING, ORDERS, "earliest")
    await store.register(member("ann"))
    await store.register(member("bob"))
    return await take(store, "ann")


@pytest.fixture
async def connect(database: str) -> AsyncIterator[Connect]:
    """Connections of somebody else's to the database; they are cut off at the end, if they were not closed."""
    async with AsyncExitStack() as stack:

        async def make() -> asyncpg.Connection:
            connection = await asyncpg.connect(database)
            stack.callback(connection.terminate)
            return connection

        yield make


@pytest.fixture
async def somebody(store: PostgresStore, connect: Connect) -> asyncpg.Connection:
    """A connection of somebody else's."""
    return await connect()

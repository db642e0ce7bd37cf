"""A store, and connections beside it that hold transactions open.

Making a database takes half a second. So what needs nothing but a topic of its own shares one; other tests ask for
another place.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from itertools import count

import asyncpg
import pytest

from streams.stores.postgres.store import PostgresStore
from streams.stores.postgres.url import parse
from streams.stores.rows import TopicRow
from tests.conformance.leaks import nothing_left
from tests.servers.binaries import servers
from tests.servers.server import Server

Connect = Callable[[], Awaitable[asyncpg.Connection]]

numbers = count(1)


@pytest.fixture
def anyio_backend() -> str:
    """PostgreSQL's driver knows asyncio alone."""
    return "asyncio"


@pytest.fixture(scope="session")
def shared(server: Server) -> str:
    """The URL of a database that many tests use."""
    return server.create_database()


@pytest.fixture(scope="session")
def small_server() -> Iterator[Server]:
    """A server whose lock table has room for a few hundred locks."""
    newest = servers().newest
    assert newest is not None
    with Server(newest, {"fsync": False, "max_connections": 12, "max_locks_per_transaction": 10}) as server:
        yield server


@pytest.fixture
def place(shared: str, server: Server) -> str:
    """The URL of the database that the test uses."""
    if not server.running:  # A test failed before it could start it again: let the next ones be.
        server.start()
    return shared


@pytest.fixture
async def store(place: str) -> AsyncIterator[PostgresStore]:
    async with nothing_left(lambda: 0):
        store = PostgresStore(parse(place))
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
    """A topic of one partition."""
    return await store.ensure_topic(f"orders-{next(numbers)}", 1, "json")


@pytest.fixture
async def shipments(store: PostgresStore) -> TopicRow:
    """A topic of four partitions."""
    return await store.ensure_topic(f"shipments-{next(numbers)}", 4, "json")


@pytest.fixture
async def connect(place: str) -> AsyncIterator[Connect]:
    """Connections of somebody else's to the database; they are cut off at the end, if they were not closed."""
    async with AsyncExitStack() as stack:

        async def make() -> asyncpg.Connection:
            connection = await asyncpg.connect(place)
            stack.callback(connection.terminate)
            return connection

        yield make


@pytest.fixture
async def somebody(store: PostgresStore, connect: Connect) -> asyncpg.Connection:
    """A connection of somebody else's."""
    return await connect()

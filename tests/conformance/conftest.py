"""The stores that the suite runs on, and a small world on each: a topic, a group, two members.

A further store is a fixture that makes it, not yet opened, on an empty database with the test's clock; and its name in
`SETTINGS`.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path

import pytest

from streams.stores.memory import MemoryStore
from streams.stores.postgres.store import PostgresStore
from streams.stores.postgres.url import parse as parse_postgres
from streams.stores.protocol import Store
from streams.stores.rows import Held, TopicRow
from streams.stores.sqlite.store import SqliteStore
from streams.stores.sqlite.url import parse
from tests.conformance.clock import Clock
from tests.conformance.handles import Handles
from tests.conformance.leaks import nothing_left
from tests.conformance.samples import BILLING, ORDERS, member, take

SETTINGS = [
    ("memory", "asyncio"),
    ("memory", "trio"),
    ("sqlite_file", "asyncio"),
    ("sqlite_memory", "asyncio"),
    ("postgres", "asyncio"),
]

EXECUTES_SQL = {"sqlite_file", "sqlite_memory"}
KEEPS_A_CONNECTION = {"sqlite_memory"}
"""A handle on an in-memory file keeps one, closed or not: the file ends with its last connection."""


LOOKS_BY_ITSELF = {"postgres"}
"""A ring that nobody rang is a look that the store takes while somebody may not have seen that it is to ring."""

_schemas = count()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(clock: Clock) -> Store:
    return MemoryStore(clock=clock)


@pytest.fixture
def sqlite_file(clock: Clock, tmp_path: Path) -> Store:
    return SqliteStore(parse(f"sqlite:///{tmp_path}/streams.db"), clock=clock)


@pytest.fixture
def sqlite_memory(clock: Clock) -> Store:
    return SqliteStore(parse("sqlite:///:memory:"), clock=clock)


@pytest.fixture
def postgres(clock: Clock, shared_database: str) -> Store:
    return PostgresStore(parse_postgres(shared_database), schema=f"test_{next(_schemas)}", clock=clock)


@pytest.fixture(params=SETTINGS, ids="-".join)
def setting(request: pytest.FixtureRequest) -> tuple[str, str]:
    store, backend = request.param
    return store, backend


@pytest.fixture
def anyio_backend(setting: tuple[str, str]) -> str:
    return setting[1]


@pytest.fixture
def rings_for_writes_alone(setting: tuple[str, str]) -> None:
    if setting[0] in LOOKS_BY_ITSELF:
        pytest.skip("this store also looks by itself, which the protocol allows")


@pytest.fixture
def executes_sql(setting: tuple[str, str]) -> bool:
    return setting[0] in EXECUTES_SQL


@pytest.fixture
def unopened(setting: tuple[str, str], request: pytest.FixtureRequest) -> Store:
    store: Store = request.getfixturevalue(setting[0])
    return store


@pytest.fixture
async def handles(unopened: Store, setting: tuple[str, str]) -> AsyncIterator[Handles]:
    async with AsyncExitStack() as stack:
        handles = Handles(unopened, stack)
        kept = setting[0] in KEEPS_A_CONNECTION
        await stack.enter_async_context(nothing_left(lambda: kept * (handles.count - 1)))
        stack.push_async_callback(unopened.close)
        await unopened.open(migrate=True, create=True)
        yield handles


@pytest.fixture
async def store(handles: Handles) -> Store:
    return handles.first


@pytest.fixture
async def other(handles: Handles) -> Store:
    """A second handle on the same database."""
    return await handles.open()


@pytest.fixture
async def orders(store: Store) -> TopicRow:
    """A topic of four partitions."""
    return await store.ensure_topic(ORDERS, 4, "json")


@pytest.fixture
async def billing(store: Store, orders: TopicRow) -> str:
    """A group of the topic, with two members that hold nothing: ann and bob."""
    await store.ensure_group(BILLING, orders.name, "earliest")
    await store.register(member("ann"))
    await store.register(member("bob"))
    return BILLING


@pytest.fixture
async def held(store: Store, billing: str) -> Held:
    """Partition 0, held by ann."""
    return await take(store, "ann")

"""With `connection=` a record is part of the caller's transaction: it commits or vanishes with it."""

import gc
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import anyio
import asyncpg
import pytest

from streams import InvalidConnection, Streams, Topic
from streams.stores.postgres.store import PostgresStore
from tests.postgres.conftest import Connect, numbers
from tests.postgres.transaction import waited_for
from tests.servers.server import Server


@pytest.fixture
async def app(place: str) -> AsyncIterator[Streams]:
    async with Streams(place) as app:
        yield app


@pytest.fixture
def topic(app: Streams) -> Topic[int]:
    """One that nobody has made yet."""
    return app.topic(f"numbers-{next(numbers)}", int, partitions=2)


@pytest.fixture
async def caller(app: Streams, connect: Connect) -> asyncpg.Connection:
    """The caller's own connection."""
    return await connect()


@asynccontextmanager
async def begun(connection: asyncpg.Connection, **options: Any) -> AsyncIterator[asyncpg.Connection]:
    """An open transaction that is rolled back."""
    transaction = connection.transaction(**options)
    await transaction.start()
    try:
        yield connection
    finally:
        if not connection.is_closed():
            await transaction.rollback()


async def payloads(connection: asyncpg.Connection, topic: Topic[int]) -> list[int]:
    rows = await connection.fetch(
        """
        SELECT payload FROM streams.records JOIN streams.topics USING (topic_id)
        WHERE name = $1 ORDER BY partition, "offset"
        """,
        topic.name,
    )
    return [int(row["payload"]) for row in rows]


async def test_a_record_commits_with_the_callers_transaction_and_is_seen_by_nobody_before(
    topic: Topic[int], caller: asyncpg.Connection, connect: Connect
) -> None:
    elsewhere = await connect()
    async with caller.transaction():
        receipt = await topic.publish("a", 1, connection=caller)
        assert (receipt.topic, receipt.offset) == (topic.name, 1)
        assert await payloads(elsewhere, topic) == []
    assert await payloads(elsewhere, topic) == [1]


async def test_a_record_and_its_topic_vanish_with_the_callers_transaction(
    topic: Topic[int], caller: asyncpg.Connection
) -> None:
    async with begun(caller):
        await topic.publish("a", 1, connection=caller)
        assert await topic.publish_many([("a", 2), ("b", 3)], connection=caller) == 2
    assert await payloads(caller, topic) == []
    await topic.publish("a", 4)
    assert await payloads(caller, topic) == [4]


async def test_a_savepoint_of_the_callers_takes_its_records_along(
    topic: Topic[int], caller: asyncpg.Connection
) -> None:
    async with caller.transaction():
        await topic.publish("a", 1, connection=caller)
        async with begun(caller):
            await topic.publish("a", 2, connection=caller)
        await topic.publish("a", 3, connection=caller)
    assert await payloads(caller, topic) == [1, 3]


async def test_a_connection_of_a_pool_serves(place: str, topic: Topic[int], caller: asyncpg.Connection) -> None:
    async with asyncpg.create_pool(place, min_size=1, max_size=1) as pool:
        for number in (1, 2):
            async with pool.acquire() as connection, connection.transaction():
                await topic.publish("a", number, connection=connection)
        with pytest.raises(InvalidConnection, match="released"):
            await topic.publish("a", 3, connection=connection)
    assert await payloads(caller, topic) == [1, 2]


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_other_isolation_levels_serve(topic: Topic[int], caller: asyncpg.Connection, isolation: Any) -> None:
    await topic.publish("a", 1)
    async with caller.transaction(isolation=isolation):
        await caller.fetchval("SELECT count(*) FROM streams.records")
        await topic.publish("b", 2)
        await topic.publish("b", 3, connection=caller)
    assert sorted(await payloads(caller, topic)) == [1, 2, 3]


async def test_a_connection_without_a_transaction_is_refused(topic: Topic[int], caller: asyncpg.Connection) -> None:
    with pytest.raises(InvalidConnection, match="no transaction open"):
        await topic.publish("a", 1, connection=caller)


async def test_a_closed_connection_is_refused(topic: Topic[int], caller: asyncpg.Connection) -> None:
    await caller.close()
    with pytest.raises(InvalidConnection, match="closed"):
        await topic.publish("a", 1, connection=caller)


async def test_a_connection_of_another_driver_is_refused(topic: Topic[int]) -> None:
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(InvalidConnection, match=r"asyncpg.Conn"):
        await topic.publish("a", 1, connection=connection)


@pytest.mark.parametrize("migrated", [False, True])
@pytest.mark.parametrize("known", [False, True])
async def test_a_connection_to_another_database_is_refused_and_its_transaction_goes_on(
    topic: Topic[int], caller: asyncpg.Connection, database: str, migrated: bool, known: bool
) -> None:
    if known:
        await topic.publish("a", 1)
    if migrated:
        async with Streams(database) as there:
            await there.topic(topic.name, int, partitions=2).publish("a", 1)
    foreign = await asyncpg.connect(database)
    try:
        async with foreign.transaction():
            for _ in range(2):
                with pytest.raises(InvalidConnection, match="another database"):
                    await topic.publish("a", 2, connection=foreign)
                with pytest.raises(InvalidConnection, match="another database"):
                    await topic.publish_many([("a", 2)], connection=foreign)
            assert await foreign.fetchval("SELECT 1") == 1
    finally:
        await foreign.close()
    assert await payloads(caller, topic) == [1] * known


async def test_a_connection_is_asked_once_where_it_leads(
    topic: Topic[int], caller: asyncpg.Connection, connect: Connect
) -> None:
    asked: list[str] = []
    caller.add_query_logger(lambda record: asked.append(record.query))
    for number in range(3):
        async with caller.transaction():
            await topic.publish("a", number, connection=caller)
    assert sum("pg_postmaster_start_time" in query for query in asked) == 1


async def test_a_connection_is_not_kept_alive(store: PostgresStore, place: str) -> None:
    connection = await asyncpg.connect(place)
    async with connection.transaction():
        await store.within(connection).topic("nothing")
    assert len(store._home._known) == 1
    await connection.close()
    del connection
    gc.collect()
    assert len(store._home._known) == 0


async def test_connections_made_after_a_restart_of_the_server_lead_home(
    topic: Topic[int], caller: asyncpg.Connection, connect: Connect, server: Server
) -> None:
    async with caller.transaction():
        await topic.publish("a", 1, connection=caller)
    await anyio.to_thread.run_sync(server.restart)
    again = await connect()
    async with again.transaction():
        await topic.publish("a", 2, connection=again)
    assert await payloads(again, topic) == [1, 2]


async def test_a_deadlock_reaches_the_caller_as_the_driver_says_it(
    topic: Topic[int], caller: asyncpg.Connection, connect: Connect
) -> None:
    other = await connect()
    await other.execute("SET deadlock_timeout = '10ms'")
    await topic.publish("a", 0)

    async def first() -> None:
        async with caller.transaction():
            await topic.publish("a", 1, connection=caller)
            await held.wait()
            await topic.publish("b", 1, connection=caller)

    held = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(first)
        async with begun(other):
            await topic.publish("b", 2, connection=other)
            held.set()
            await waited_for(other)
            with pytest.raises(asyncpg.DeadlockDetectedError):
                await topic.publish("a", 2, connection=other)
    assert sorted(await payloads(caller, topic)) == [0, 1, 1]


async def test_a_serialization_failure_reaches_the_caller_as_the_driver_says_it(
    topic: Topic[int], caller: asyncpg.Connection, connect: Connect
) -> None:
    await caller.execute("CREATE TABLE IF NOT EXISTS rows (number integer); INSERT INTO rows VALUES (1)")
    async with begun(caller, isolation="repeatable_read"):
        await topic.publish("a", 1, connection=caller)
        await (await connect()).execute("UPDATE rows SET number = number + 1")
        with pytest.raises(asyncpg.SerializationError):
            await caller.execute("UPDATE rows SET number = number + 1")
        with pytest.raises(asyncpg.InFailedSQLTransactionError):
            await topic.publish("a", 2, connection=caller)
    assert await payloads(caller, topic) == []


async def test_more_than_a_thousand_slots_in_one_transaction_are_refused_with_a_sentence(
    topic: Topic[int], caller: asyncpg.Connection
) -> None:
    items = [(f"key-{number}", number) for number in range(1_400)]
    async with begun(caller):
        with pytest.raises(asyncpg.ProgramLimitExceededError, match=r"more than 1,000 slots") as caught:
            await topic.publish_many(items, connection=caller)
        assert "Publish fewer keys" in caught.value.hint
        await topic.publish("a", 1, connection=caller)
    async with begun(caller):
        for _ in range(7):
            await topic.publish_many(items[:200], connection=caller)
        assert await topic.publish_many(items[:900], connection=caller) == 900, "the same slots again are no more"
    async with caller.transaction():
        assert await topic.publish_many(items[:900], connection=caller) == 900, "and each transaction has its own"

"""Somebody's transaction that publishes and stays open."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import asyncpg

from partition import partition_of
from streams.stores.postgres.store import PostgresStore
from streams.stores.rows import Publication, TopicRow


def record(topic: TopicRow, key: str | None, payload: bytes = b"1") -> Publication:
    """A record, in the partition of its key; without one, in the first."""
    partition = 0 if key is None else partition_of(key, topic.partitions)
    return Publication(topic.id, partition, key, payload, None)


class Transaction:
    """One that is open."""

    def __init__(self, connection: asyncpg.Connection, store: PostgresStore, topic: TopicRow) -> None:
        self.connection = connection
        self._store = store
        self._topic = topic
        self._transaction = connection.transaction()

    async def publish(self, *keys: str | None) -> list[int]:
        """Records under keys; their offsets."""
        return await self._store.within(self.connection).append([record(self._topic, key) for key in keys])

    async def begin(self) -> None:
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()

    async def rollback(self) -> None:
        await self._transaction.rollback()


async def begun(connection: asyncpg.Connection, store: PostgresStore, topic: TopicRow) -> Transaction:
    """Begin one."""
    made = Transaction(connection, store, topic)
    await made.begin()
    return made


@asynccontextmanager
async def savepoint_undone(connection: asyncpg.Connection) -> AsyncIterator[None]:
    """What the block does is undone, and the transaction goes on."""
    savepoint = connection.transaction()
    await savepoint.start()
    yield
    await savepoint.rollback()


async def waited_for(connection: asyncpg.Connection, count: int = 1, *, seconds: float = 20) -> None:
    """Return when so many wait for a lock. Not by pg_stat_activity, which stands still in a transaction."""
    sql = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with anyio.fail_after(seconds):
        while True:
            if await connection.fetchval(sql) >= count:
                return
            await anyio.sleep(0.005)

"""Writers whose transactions stay open for random times, with savepoints and rollbacks."""

import random
from collections.abc import Sequence
from contextlib import suppress

import anyio
import asyncpg
from anyio.abc import TaskGroup

from streams.stores.postgres.store import PostgresStore
from streams.stores.rows import TopicRow
from tests.postgres.conftest import Connect
from tests.postgres.transaction import record, savepoint_undone

WRITERS = 24
KEYS = [f"key-{number}" for number in range(100)]

Seen = tuple[str | None, bytes]
"""A key and a payload."""


class Writers:
    """They publish numbers, each once, and know which were committed."""

    def __init__(self, store: PostgresStore, topic: TopicRow, seed: int, *, longest_seconds: float) -> None:
        self.store = store
        self.topic = topic
        self.random = random.Random(seed)
        self.longest_seconds = longest_seconds
        self.committed: set[bytes] = set()
        self.writing = WRITERS
        """How many have not ended."""
        self._number = 0

    def records(self) -> list[tuple[str | None, bytes]]:
        """Keys and payloads of a publish."""
        found = []
        for key in self.random.choices([*KEYS, None], k=self.random.randint(1, 4)):
            self._number += 1
            found.append((key, b"%d" % self._number))
        return found

    async def write(self, connection: asyncpg.Connection, seconds: float) -> None:
        """One writer. Writers take keys in any order, so now and then two of them deadlock."""
        await connection.execute("SET deadlock_timeout = '20ms'")
        ends = anyio.current_time() + seconds
        while anyio.current_time() < ends:
            if self.random.random() < 0.3:
                await self.alone()
            else:
                with suppress(asyncpg.DeadlockDetectedError):  # the driver's own error, and all is undone
                    await self.transaction(connection)
        self.writing -= 1

    async def alone(self) -> None:
        """A publish in a transaction of its own."""
        records = self.records()
        offsets = await self.store.try_append([record(self.topic, key, payload) for key, payload in records])
        self.committed |= {payload for (_, payload), offset in zip(records, offsets, strict=True) if offset is not None}

    async def transaction(self, connection: asyncpg.Connection) -> None:
        """Publishes, savepoints, and in the end a commit or not."""
        written: set[bytes] = set()
        transaction = connection.transaction()
        await transaction.start()
        try:
            appender = self.store.within(connection)
            for _ in range(self.random.randint(1, 3)):
                records = self.records()
                rows = [record(self.topic, key, payload) for key, payload in records]
                if self.random.random() < 0.2:
                    async with savepoint_undone(connection):
                        await appender.append(rows)
                        await self.rest()
                else:
                    await appender.append(rows)
                    written |= {payload for _, payload in records}
                    await self.rest()
        except BaseException:
            await transaction.rollback()
            raise
        if self.random.random() < 0.1:
            await transaction.rollback()
        else:
            await transaction.commit()
            self.committed |= written

    async def rest(self) -> None:
        await anyio.sleep(self.random.random() ** 3 * self.longest_seconds)

    async def start(self, group: TaskGroup, connect: Connect, seconds: float) -> None:
        """Let them write, as tasks of the group."""
        for _ in range(WRITERS):
            group.start_soon(self.write, await connect(), seconds)

    def check(self, seen: Sequence[Sequence[Seen]]) -> None:
        """What several readers saw: all that was committed, nothing twice, and one order of each key."""
        for records in seen:
            payloads = [payload for _, payload in records]
            assert len(payloads) == len(set(payloads)), "nothing comes twice"
            assert set(payloads) == self.committed, "nothing is missed, and nothing comes that was rolled back"
        orders = [{key: [p for k, p in records if k == key] for key in KEYS} for records in seen]
        assert all(order == orders[0] for order in orders), "one order of each key for all"
        assert len(self.committed) > 100, "there was something to see"

"""Offset order is commit order of each key, for everybody who reads, whatever the writers do."""

import os
import random
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

import anyio
import asyncpg
import pytest

from streams.stores.postgres.store import PostgresStore
from streams.stores.rows import Record, TopicRow
from tests.postgres.conftest import Connect
from tests.postgres.tail import Log, Tail, impatient
from tests.postgres.transaction import begun, record, savepoint_undone, waited_for

WRITERS = 24
KEYS = [f"key-{number}" for number in range(100)]


async def test_who_began_first_and_publishes_last_comes_last(
    store: PostgresStore, orders: TopicRow, connect: Connect
) -> None:
    first, second = [await begun(await connect(), store, orders) for _ in range(2)]
    await first.connection.execute("CREATE TABLE IF NOT EXISTS elsewhere (); INSERT INTO elsewhere DEFAULT VALUES")
    tail = Tail(store, orders)
    assert await second.publish("K") == [1]
    await second.commit()
    assert await tail.read() == [1]
    assert await first.publish("K") == [2]
    assert await tail.read() == []
    await first.commit()
    assert await tail.read() == [2]


async def test_two_open_transactions_never_hold_offsets_of_one_key(
    store: PostgresStore, orders: TopicRow, connect: Connect
) -> None:
    first, second = [await begun(await connect(), store, orders) for _ in range(2)]
    order: list[int] = []

    async def publish_second() -> None:
        await second.publish("J")
        order.append((await second.publish("K"))[0])
        await second.commit()

    await first.publish("K")
    async with anyio.create_task_group() as group:
        group.start_soon(publish_second)
        await waited_for(first.connection)
        order += await first.publish("K")
        await first.commit()
    assert order == sorted(order)


class Trial:
    """Writers with open transactions of random length, and readers meanwhile."""

    def __init__(self, store: PostgresStore, topic: TopicRow, seed: int, *, longest_seconds: float) -> None:
        self.store = store
        self.topic = topic
        self.random = random.Random(seed)
        self.longest_seconds = longest_seconds
        self.committed: set[bytes] = set()
        self.writing = WRITERS
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

    async def read(self, log: Log) -> list[Record]:
        """One reader of all partitions, until the writers are done, all is read and no hole is left."""
        tails = [Tail(log, self.topic, partition) for partition in range(self.topic.partitions)]
        quiet = False
        while not quiet:
            done = not self.writing
            came = [await tail.read(limit_records=self.random.randint(1, 200)) for tail in tails]
            quiet = done and not any(came) and not any(tail.holes for tail in tails)
            await anyio.sleep(0.002)
        return [record for tail in tails for record in tail.records]


def by_key(records: Sequence[Record]) -> dict[str | None, list[bytes]]:
    found: dict[str | None, list[bytes]] = defaultdict(list)
    for one in records:
        found[one.key].append(one.payload)
    return found


async def run(trial: Trial, connect: Connect, others: Sequence[PostgresStore], seconds: float) -> None:
    logs: list[Log] = [impatient(trial.store), others[0]]
    seen: list[list[Record]] = []

    async def read(log: Log) -> None:
        seen.append(await trial.read(log))

    async with anyio.create_task_group() as group:
        for log in logs:
            group.start_soon(read, log)
        for _ in range(WRITERS):
            group.start_soon(trial.write, await connect(), seconds)
    await read(others[1])  # a replay
    for records in seen:
        payloads = [record.payload for record in records]
        assert len(payloads) == len(set(payloads)), "nothing comes twice"
        assert set(payloads) == trial.committed, "nothing is missed, and nothing comes that was rolled back"
    orders = [{key: payloads for key, payloads in by_key(records).items() if key} for records in seen]
    assert orders[0] == orders[1] == orders[2], "one order of each key for all"
    assert len(trial.committed) > 100


@pytest.fixture
async def others(store: PostgresStore, other: PostgresStore) -> list[PostgresStore]:
    return [other, store]


async def test_nothing_is_missed_doubled_or_reordered_among_24_writers(
    store: PostgresStore, shipments: TopicRow, connect: Connect, others: list[PostgresStore]
) -> None:
    await run(Trial(store, shipments, 1, longest_seconds=0.1), connect, others, seconds=2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 10 + int(os.environ.get("STREAMS_ORDER_SEEDS", "4"))))
async def test_the_same_with_transactions_of_up_to_a_second(
    store: PostgresStore, shipments: TopicRow, connect: Connect, others: list[PostgresStore], seed: int
) -> None:
    await run(Trial(store, shipments, seed, longest_seconds=1), connect, others, seconds=30)

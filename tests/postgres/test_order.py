"""Offset order is commit order of each key, for everybody who reads, whatever the writers do."""

import os

import anyio
import pytest

from streams.stores.postgres.store import PostgresStore
from streams.stores.rows import Record, TopicRow
from tests.postgres.conftest import Connect
from tests.postgres.tail import Log, Tail, impatient
from tests.postgres.transaction import begun, waited_for
from tests.postgres.writers import Seen, Writers


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


async def read(writers: Writers, log: Log) -> list[Record]:
    """All partitions, until the writers are done, all is read and no hole is left."""
    tails = [Tail(log, writers.topic, partition) for partition in range(writers.topic.partitions)]
    quiet = False
    while not quiet:
        done = not writers.writing
        came = [await tail.read(limit_records=writers.random.randint(1, 200)) for tail in tails]
        quiet = done and not any(came) and not any(tail.holes for tail in tails)
        await anyio.sleep(0.002)
    return [record for tail in tails for record in tail.records]


async def run(writers: Writers, connect: Connect, other: PostgresStore, seconds: float) -> None:
    seen: list[list[Seen]] = []

    async def follow(log: Log) -> None:
        seen.append([(record.key, record.payload) for record in await read(writers, log)])

    async with anyio.create_task_group() as group:
        for log in (impatient(writers.store), other):
            group.start_soon(follow, log)
        await writers.start(group, connect, seconds)
    await follow(other)  # a replay
    writers.check(seen)


async def test_nothing_is_missed_doubled_or_reordered_among_24_writers(
    store: PostgresStore, other: PostgresStore, shipments: TopicRow, connect: Connect
) -> None:
    await run(Writers(store, shipments, 1, longest_seconds=0.1), connect, other, seconds=2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 10 + int(os.environ.get("STREAMS_ORDER_SEEDS", "4"))))
async def test_the_same_with_transactions_of_up_to_a_second(
    store: PostgresStore, other: PostgresStore, shipments: TopicRow, connect: Connect, seed: int
) -> None:
    await run(Writers(store, shipments, seed, longest_seconds=1), connect, other, seconds=30)

"""The doorbell: who is rung for, who rings, and what is found although nobody rang."""

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import asyncpg
import pytest

from partition import Beat
from streams.stores.postgres.store import PostgresStore
from streams.stores.rows import Cursor, TopicRow
from tests.conformance.clock import MICROS
from tests.postgres.conftest import Connect
from tests.postgres.lease import join, take
from tests.postgres.transaction import begun, record

LONG = 60.0
"""Nobody waits for this: a bell that does not ring fails the test much earlier."""
SOON = 5.0


async def read(store: PostgresStore, topic: TopicRow, partition: int = 0, after: int = 0) -> int:
    """Read a partition, as an idle worker does; how many records came."""
    (found,) = await store.fetch([Cursor(topic.id, partition, after, (), 1_000, 1 << 20)])
    return len(found.records)


async def rings_within(store: PostgresStore, seconds: float) -> bool:
    started = anyio.current_time()
    await store.rung(seconds)
    return anyio.current_time() - started < seconds * 0.9


async def lie_down(store: PostgresStore, topic: TopicRow, partition: int = 0, after: int = 0) -> str:
    """Have a new member wait for a partition, until nothing can be missed any more; its id."""
    me = await join(store, topic)
    await read(store, topic, partition, after)
    with anyio.fail_after(SOON):
        while await rings_within(store, 0.5):
            await read(store, topic, partition, after)
    return me


class Ear:
    """Hears every ring of the database."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._heard: list[str] = []

    def hear(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        self._heard.append(payload)

    async def heard(self, topic: TopicRow) -> int:
        """How many rings for a topic there were since this was asked, all that are committed by now."""
        await self._connection.execute("SELECT 1")
        count = self._heard.count(str(topic.id))
        self._heard.clear()
        return count


@pytest.fixture
async def ear(store: PostgresStore, connect: Connect) -> Ear:
    connection = await connect()
    ear = Ear(connection)
    await connection.add_listener(await connection.fetchval("SELECT streams.channel()"), ear.hear)
    return ear


@pytest.fixture
async def caller(connect: Connect) -> asyncpg.Connection:
    return await connect()


@pytest.fixture
async def third(store: PostgresStore) -> AsyncIterator[PostgresStore]:
    third = store.sibling()
    yield third
    await third.close()


Asleep = Callable[[TopicRow], Awaitable[bool]]


@pytest.fixture
def asleep(caller: asyncpg.Connection) -> Asleep:
    """Whether somebody is to be rung for when a topic is published to."""

    async def look(topic: TopicRow) -> bool:
        sql = "SELECT EXISTS (SELECT FROM streams.sleepers WHERE topic_id = $1)"
        return bool(await caller.fetchval(sql, topic.id))

    return look


# Who is rung for


async def test_a_publish_wakes_all_that_wait_for_its_partition(
    store: PostgresStore, other: PostgresStore, third: PostgresStore, orders: TopicRow, ear: Ear
) -> None:
    await lie_down(store, orders)
    await lie_down(other, orders)
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.rung, LONG)
            tasks.start_soon(other.rung, LONG)
            await anyio.wait_all_tasks_blocked()
            await third.append([record(orders, "a")])
    assert await ear.heard(orders) == 1


async def test_who_waits_for_another_topic_sleeps_on(
    store: PostgresStore, other: PostgresStore, third: PostgresStore, orders: TopicRow, shipments: TopicRow
) -> None:
    await lie_down(store, orders)
    await lie_down(other, shipments)
    await third.append([record(orders, "a")])
    assert await rings_within(store, LONG)
    assert not await rings_within(other, 0.2)


async def test_nobody_rings_for_what_nobody_waits_for(
    store: PostgresStore, other: PostgresStore, shipments: TopicRow, orders: TopicRow, ear: Ear
) -> None:
    await lie_down(store, shipments, partition=1)
    await other.append([record(orders, "another topic")])
    assert await ear.heard(orders) == 0
    here = next(key for key in map(str, range(100)) if record(shipments, key).partition == 1)
    elsewhere = next(key for key in map(str, range(100)) if record(shipments, key).partition != 1)
    await other.append([record(shipments, elsewhere)])
    assert await ear.heard(shipments) == 0
    await other.append([record(shipments, here)])
    assert await ear.heard(shipments) == 1


async def test_who_has_much_to_do_gets_up(
    store: PostgresStore, other: PostgresStore, orders: TopicRow, ear: Ear, asleep: Asleep
) -> None:
    await lie_down(store, orders)
    assert await asleep(orders)
    await other.append([record(orders, str(number)) for number in range(20)])
    assert await ear.heard(orders) == 1
    assert await read(store, orders) == 20
    await store.rung(0)
    assert not await asleep(orders)
    await other.append([record(orders, "more")])
    assert await ear.heard(orders) == 0


async def test_who_leaves_is_forgotten(
    store: PostgresStore, other: PostgresStore, orders: TopicRow, asleep: Asleep
) -> None:
    me = await lie_down(store, orders)
    assert await asleep(orders)
    await other.leave(me)
    assert not await asleep(orders)


async def test_the_expired_and_the_dead_are_not_rung_for(
    store: PostgresStore, other: PostgresStore, orders: TopicRow, ear: Ear, caller: asyncpg.Connection
) -> None:
    me = await lie_down(store, orders)
    await caller.execute("UPDATE streams.members SET alive_until = 0 WHERE member = $1", me)
    await other.append([record(orders, "a")])
    assert await ear.heard(orders) == 0
    await caller.execute("UPDATE streams.members SET alive_until = 1::bigint << 60 WHERE member = $1", me)
    await other.append([record(orders, "a")])
    assert await ear.heard(orders) == 1
    await caller.execute("UPDATE streams.members SET dead = true WHERE member = $1", me)
    await other.append([record(orders, "a")])
    assert await ear.heard(orders) == 0


async def test_the_dead_are_forgotten_when_somebody_joins(
    store: PostgresStore, other: PostgresStore, orders: TopicRow, asleep: Asleep
) -> None:
    me = await lie_down(store, orders)
    await take(store, orders, me)  # Its row stays for the lease's sake.
    await join(other, orders, replaces=me)
    assert not await asleep(orders)


async def test_the_dead_are_forgotten_by_whoever_declares_them_dead(
    store: PostgresStore, other: PostgresStore, orders: TopicRow, asleep: Asleep, caller: asyncpg.Connection
) -> None:
    me, heir = await lie_down(store, orders), await join(other, orders)
    await caller.execute("UPDATE streams.members SET alive_until = 1 WHERE member = $1", me)
    assert await asleep(orders)
    await take(other, orders, heir, dead=[Beat(me, 1, 10 * MICROS, False)])
    assert not await asleep(orders)


# Who rings


async def test_it_rings_when_the_transaction_has_committed(
    store: PostgresStore, orders: TopicRow, ear: Ear, caller: asyncpg.Connection
) -> None:
    await lie_down(store, orders)
    transaction = await begun(caller, store, orders)
    await transaction.publish("a")
    assert await ear.heard(orders) == 0
    await transaction.commit()
    assert await ear.heard(orders) == 1


async def test_a_transaction_with_an_older_snapshot_rings_in_any_case(
    store: PostgresStore, orders: TopicRow, ear: Ear, caller: asyncpg.Connection
) -> None:
    async with caller.transaction(isolation="repeatable_read"):
        await caller.execute("SELECT 1 FROM streams.topics")
        await lie_down(store, orders)
        await store.within(caller).append([record(orders, "a")])
    assert await ear.heard(orders) == 1


@pytest.mark.parametrize(("ring", "rings"), [("true", 1), ("false", 0)])
async def test_sql_rings_unless_it_is_told_not_to(
    store: PostgresStore, orders: TopicRow, ear: Ear, caller: asyncpg.Connection, ring: str, rings: int
) -> None:
    await lie_down(store, orders)
    await caller.execute(f"SELECT streams.publish('{orders.name}', 'a', '1', ring => {ring})")
    assert await ear.heard(orders) == rings


# What is found although nobody rang


async def test_who_published_before_it_lay_down_and_commits_afterwards_is_not_missed(
    store: PostgresStore, orders: TopicRow, ear: Ear, caller: asyncpg.Connection
) -> None:
    await join(store, orders)
    await read(store, orders)
    transaction = await begun(caller, store, orders)
    await transaction.publish("a")
    with anyio.fail_after(2 * SOON):
        for _ in range(20):  # It has lain down, and looks ever more rarely.
            await store.rung(LONG)
            assert await read(store, orders) == 0
        await transaction.commit()
        while not await read(store, orders):
            await store.rung(LONG)
    assert await ear.heard(orders) == 0, "the publisher did not see the sleeper"


async def test_a_listener_that_was_cut_off_is_replaced_and_lies_down_anew(
    store: PostgresStore, other: PostgresStore, orders: TopicRow, caller: asyncpg.Connection
) -> None:
    await lie_down(store, orders)
    with anyio.fail_after(SOON):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.rung, LONG)
            await anyio.wait_all_tasks_blocked()
            await caller.execute("DELETE FROM streams.sleepers")  # As a crash does.
            listeners = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
            await caller.execute(listeners)
        while await rings_within(store, 0.5):
            await read(store, orders)
        await other.append([record(orders, "a")])
        assert await rings_within(store, LONG)


async def test_a_listener_that_has_gone_deaf_is_found_out(
    store: PostgresStore, other: PostgresStore, orders: TopicRow
) -> None:
    await lie_down(store, orders)
    ear = store._doorbell._ear
    assert ear is not None
    await ear.execute("UNLISTEN *")
    await other.append([record(orders, "a")])
    assert not await rings_within(store, 0.2)
    store._doorbell._ear_tested_at = float("-inf")  # The time has come.
    with anyio.fail_after(2 * SOON):
        await store.rung(LONG)
        assert await read(store, orders) == 1, "what was not heard is looked for"
        while await rings_within(store, 0.5):
            await read(store, orders, after=1)
        await other.append([record(orders, "a")])
        assert await rings_within(store, LONG)

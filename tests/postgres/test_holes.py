"""An offset that nobody sees yet is stepped over, asked for again, and given up only by proof."""

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any

import anyio
import asyncpg
import pytest

from partition import partition_of, slot_of
from streams.stores.postgres.reading import LOOK_SECONDS, Reader
from streams.stores.postgres.session import Session
from streams.stores.postgres.store import PostgresStore
from streams.stores.rows import TopicRow
from tests.postgres.conftest import Connect
from tests.postgres.tail import Tail, impatient
from tests.postgres.transaction import begun, record, savepoint_undone, waited_for
from tests.servers.server import Server


@pytest.fixture
def tail(store: PostgresStore, orders: TopicRow) -> Tail:
    """Of partition 0; each read with holes looks who could fill them."""
    return Tail(impatient(store), orders)


async def publish(store: PostgresStore, topic: TopicRow, *keys: str | None) -> list[int]:
    return await store.append([record(topic, key) for key in keys])


async def test_an_open_transactions_record_is_stepped_over_and_comes_when_it_commits(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection, tail: Tail
) -> None:
    open_one = await begun(somebody, store, orders)
    assert await open_one.publish("a") == [1]
    assert await publish(store, orders, "b") == [2]
    assert await tail.read() == [2]
    for _ in range(5):
        assert await tail.read() == []
        assert tail.missing == [1]
    await open_one.commit()
    assert await tail.read() == [1]
    assert tail.holes == ()


async def test_a_rolled_back_hole_ends_when_nobody_can_fill_it_any_more(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection, tail: Tail
) -> None:
    open_one = await begun(somebody, store, orders)
    await open_one.publish("a", "a")
    await publish(store, orders, "b")
    assert await tail.read() == [3]
    await open_one.rollback()
    assert await tail.read() == []
    assert tail.missing == [1, 2], "a look without holders proves nothing before the next statement"
    assert await tail.read() == []
    assert tail.holes == ()


async def test_a_hole_that_was_rolled_back_before_it_was_seen_ends_too(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection, tail: Tail
) -> None:
    open_one = await begun(somebody, store, orders)
    await open_one.publish("a")
    await open_one.rollback()
    await publish(store, orders, "b")
    assert await tail.read() == [2]
    assert tail.missing == [1]
    assert await tail.read() == []
    assert tail.holes == ()


async def test_who_comes_later_keeps_no_hole_open(
    store: PostgresStore, orders: TopicRow, connect: Connect, tail: Tail
) -> None:
    first = await begun(await connect(), store, orders)
    await first.publish("a")
    await publish(store, orders, "b")
    await tail.read()
    await first.rollback()
    later = await begun(await connect(), store, orders)
    await later.publish("a")
    await tail.read()
    await tail.read()
    assert tail.missing == []
    await publish(store, orders, "b")
    await tail.read()
    assert tail.missing == [3]
    await later.commit()
    assert await tail.read() == [3]


class Between(Session):
    """A session before whose look at the locks something happens, once: what was read before it is old by then."""

    def __init__(self, session: Session, happens: Callable[[], Awaitable[None]]) -> None:
        self._inner = session
        self._happens: Callable[[], Awaitable[None]] | None = happens

    async def read(self, name: str, *args: object) -> list[Any]:
        if name == "holders" and self._happens is not None:
            happens, self._happens = self._happens, None
            await happens()
        return await self._inner.read(name, *args)


async def test_what_commits_between_a_statement_and_the_look_is_not_given_up(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection
) -> None:
    open_one = await begun(somebody, store, orders)
    await open_one.publish("a")
    await publish(store, orders, "b")
    tail = Tail(Reader(Between(store._reading, open_one.commit), clock=count().__next__), orders)
    assert await tail.read() == [2]
    assert tail.missing == [1]
    assert await tail.read() == [1]
    assert tail.holes == ()


async def test_a_statement_that_does_not_reach_past_a_hole_does_not_end_it(
    store: PostgresStore, orders: TopicRow, connect: Connect, tail: Tail
) -> None:
    fills, vanishes = [await begun(await connect(), store, orders) for _ in range(2)]
    await fills.publish(*["a"] * 5)
    await vanishes.publish("b")
    await publish(store, orders, "c")
    await tail.read()
    await vanishes.rollback()
    await tail.read()
    await fills.commit()
    await tail.read(limit_records=0)
    assert await tail.read(limit_records=2) == [1, 2]
    assert tail.missing == [3, 4, 5, 6]
    assert await tail.read() == [3, 4, 5]
    await tail.read()
    await tail.read()
    assert tail.missing == []


async def test_a_prepared_transaction_keeps_its_hole_open(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection, tail: Tail, connect: Connect
) -> None:
    await somebody.execute("BEGIN")
    await store.within(somebody).append([record(orders, "a")])
    await publish(store, orders, "b")
    assert await tail.read() == [2]
    await somebody.execute("PREPARE TRANSACTION 'one'")
    await somebody.close()
    for _ in range(5):
        await tail.read()
        assert tail.missing == [1]
    await (await connect()).execute("COMMIT PREPARED 'one'")
    assert await tail.read() == [1]


async def test_a_prepared_transaction_that_is_rolled_back_ends_its_hole(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection, tail: Tail
) -> None:
    await somebody.execute("BEGIN")
    await store.within(somebody).append([record(orders, "a")])
    await somebody.execute("PREPARE TRANSACTION 'two'")
    await publish(store, orders, "b")
    for _ in range(3):
        await tail.read()
    assert tail.missing == [1]
    await somebody.execute("ROLLBACK PREPARED 'two'")
    await tail.read()
    await tail.read()
    assert tail.missing == []


async def test_what_a_savepoint_undid_is_a_hole_as_long_as_its_transaction_is_open(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection, tail: Tail
) -> None:
    open_one = await begun(somebody, store, orders)
    await open_one.publish("a")
    async with savepoint_undone(somebody):
        assert await open_one.publish("a", "b") == [2, 3]
    await open_one.publish("a")
    assert await publish(store, orders, "b") == [5], "a slot taken in a savepoint is free when that is undone"
    assert await tail.read() == [5]
    for _ in range(3):
        await tail.read()
    assert {1, 4} <= set(tail.missing)
    await open_one.commit()
    assert await tail.read() == [1, 4]
    await tail.read()
    await tail.read()
    assert tail.missing == []


async def test_records_without_a_key_keep_their_holes_open_too(
    store: PostgresStore, orders: TopicRow, connect: Connect, tail: Tail
) -> None:
    first, second = [await begun(await connect(), store, orders) for _ in range(2)]
    assert await first.publish(None) == [1]
    assert await second.publish(None) == [2], "and do not wait for each other"
    await publish(store, orders, "b")
    for _ in range(4):
        await tail.read()
    assert tail.missing == [1, 2]
    await second.commit()
    assert await tail.read() == [2]
    await first.commit()
    assert await tail.read() == [1]


async def test_a_transaction_of_another_topic_or_another_database_delays_nothing(
    store: PostgresStore, orders: TopicRow, shipments: TopicRow, connect: Connect, tail: Tail, server: Server
) -> None:
    elsewhere = await begun(await connect(), store, shipments)
    await elsewhere.publish("a")
    lock = await elsewhere.connection.fetchval("SELECT streams.slot_lock($1, $2)", orders.id, slot_of("a"))
    foreign = await asyncpg.connect(server.url())
    try:
        await foreign.execute("BEGIN")
        await foreign.execute("SELECT pg_current_xact_id(), pg_advisory_xact_lock($1)", lock)
        vanishes = await begun(await connect(), store, orders)
        await vanishes.publish("a")
        await publish(store, orders, "b")
        await vanishes.rollback()
        await tail.read()
        await tail.read()
        assert tail.missing == []
    finally:
        foreign.terminate()


async def test_a_transaction_of_another_partition_keeps_no_hole_open(
    store: PostgresStore, shipments: TopicRow, connect: Connect
) -> None:
    first, second = (next(key for key in map(str, count()) if partition_of(key, 4) == n) for n in (0, 1))
    elsewhere = await begun(await connect(), store, shipments)
    await elsewhere.publish(second)
    vanishes = await begun(await connect(), store, shipments)
    await vanishes.publish(first)
    await vanishes.rollback()
    await publish(store, shipments, first)
    tail = Tail(impatient(store), shipments)
    await tail.read()
    await tail.read()
    assert tail.missing == []


async def test_who_reads_in_order_stops_at_the_hole(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection
) -> None:
    tail = Tail(impatient(store), orders, in_order=True)
    await publish(store, orders, "b")
    open_one = await begun(somebody, store, orders)
    await open_one.publish("a")
    await publish(store, orders, "b")
    assert await tail.read() == [1]
    for _ in range(3):
        assert await tail.read() == []
        assert (tail.after, tail.missing) == (1, [2])
    await open_one.commit()
    assert await tail.read() == [2, 3]
    assert (tail.after, tail.holes) == (3, ())


async def test_who_reads_in_order_goes_on_past_a_hole_that_has_ended(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection
) -> None:
    tail = Tail(impatient(store), orders, in_order=True)
    open_one = await begun(somebody, store, orders)
    await open_one.publish("a")
    await publish(store, orders, "b")
    assert await tail.read() == []
    await open_one.rollback()
    assert await tail.read() == []
    assert await tail.read() == [2]
    assert (tail.after, tail.holes) == (2, ())


@pytest.mark.parametrize("limit", [{"limit_records": 3}, {"limit_bytes": 600}], ids=str)
async def test_nothing_new_comes_while_something_in_a_hole_is_left_out(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection, tail: Tail, limit: dict[str, int]
) -> None:
    open_one = await begun(somebody, store, orders)
    await open_one.publish(*["a"] * 8)
    await publish(store, orders, "b", "b")
    assert await tail.read() == [9, 10]
    await open_one.commit()
    await publish(store, orders, *["a"] * 8)
    while await tail.read(**limit):
        pass
    assert [record.offset for record in tail.records] == [9, 10, *range(1, 9), *range(11, 19)]
    assert tail.holes == ()


@pytest.fixture
async def holder(somebody: asyncpg.Connection) -> AsyncIterator[asyncpg.Connection]:
    """Holds every record under the key `slow` back, before it is inserted."""
    await somebody.execute("""
        CREATE FUNCTION hold_back() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NEW.key = 'slow' THEN PERFORM pg_advisory_xact_lock_shared(4711); END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER hold_back BEFORE INSERT ON streams.records FOR EACH ROW EXECUTE FUNCTION hold_back();
        SELECT pg_advisory_lock(4711);
    """)
    yield somebody
    await somebody.execute("SELECT pg_advisory_unlock_all(); DROP FUNCTION hold_back CASCADE")


async def test_a_trigger_that_holds_rows_back_makes_holes_and_loses_nothing(
    store: PostgresStore, other: PostgresStore, orders: TopicRow, holder: asyncpg.Connection, tail: Tail
) -> None:
    slow: list[int] = []

    async def publish_slowly() -> None:
        slow.extend(await publish(other, orders, "x", "slow", "y"))

    async with anyio.create_task_group() as group:
        group.start_soon(publish_slowly)
        await waited_for(holder)
        for _ in range(3):
            await publish(store, orders, "b")
            await tail.read()
        assert tail.keys == ["b"] * 3
        assert slow == []
        await holder.execute("SELECT pg_advisory_unlock(4711)")
    await tail.read()
    assert slow == [1, 2, 3]
    assert tail.keys == ["b", "b", "b", "x", "slow", "y"]
    assert tail.holes == ()


class Seconds:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_holes_are_looked_at_once_a_second(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection
) -> None:
    clock = Seconds()
    tail = Tail(Reader(store._reading, clock=clock), orders)
    open_one = await begun(somebody, store, orders)
    await open_one.publish("a")
    await publish(store, orders, "b")
    await tail.read()
    await open_one.rollback()
    for clock.now in (0.1, 0.5, LOOK_SECONDS - 0.01):
        await tail.read()
        assert tail.missing == [1]
    clock.now = LOOK_SECONDS
    await tail.read()
    assert tail.missing == [1]
    await tail.read()
    assert tail.missing == []

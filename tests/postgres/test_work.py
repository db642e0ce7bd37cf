"""Workers in this process whose connections are cut, whose server goes away, and whose clock is wrong."""

import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import asyncpg
import pytest
from anyio.to_thread import run_sync

from streams import Context, Streams, Topic
from streams.stores.postgres.store import PostgresStore
from streams.stores.rows import TopicRow
from tests.conformance.clock import MICROS
from tests.postgres.conftest import Connect, numbers
from tests.postgres.lease import join
from tests.postgres.transaction import record
from tests.postgres.writers import Seen, Writers
from tests.servers.server import Server

KEYS = 20
RECORDS = 400


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Return when it holds."""
    while True:
        if await condition():
            return
        await anyio.sleep(0.01)


def settled(app: Streams, topic: str) -> Callable[[], Awaitable[bool]]:
    """Whether all groups of a topic have settled all of it."""

    async def look() -> bool:
        return not any(one.lag or one.parked for one in await app.admin.groups() if one.topic == topic)

    return look


class Shop:
    """An app that writes down what it handles, and publishes what it made of it."""

    def __init__(self, url: str) -> None:
        number = next(numbers)
        self.app = Streams(url, lease_seconds=3)
        self.orders: Topic[int] = self.app.topic(f"orders-{number}", int, partitions=4)
        self.doubled: Topic[int] = self.app.topic(f"doubled-{number}", int, partitions=4)
        self.handled: dict[str | None, list[int]] = defaultdict(list)
        self.orders.subscribe(group="billing")(self.handle)

    async def handle(self, number: int, ctx: Context) -> None:
        self.handled[ctx.key].append(number)
        await anyio.sleep(0.001)
        ctx.publish(self.doubled, ctx.key, 2 * number)

    @property
    def count(self) -> int:
        """How many different records were handled."""
        return sum(len(set(numbers)) for numbers in self.handled.values())

    async def publish(self, first: int, count: int) -> None:
        await self.orders.publish_many((f"key-{number % KEYS}", number) for number in range(first, first + count))

    async def until(self, count: int) -> None:
        """Return when so many were handled."""

        async def reached() -> bool:
            return self.count >= count

        await until(reached)

    async def has(self, key: str) -> bool:
        return key in self.handled

    def firsts(self) -> dict[str | None, list[int]]:
        """What was handled, of each key, without what was repeated."""
        return {key: list(dict.fromkeys(numbers)) for key, numbers in self.handled.items()}


@asynccontextmanager
async def at_work(url: str) -> AsyncIterator[Shop]:
    shop = Shop(url)
    with anyio.fail_after(40):
        async with shop.app, anyio.create_task_group() as group:
            group.start_soon(shop.app.work)
            yield shop
            group.cancel_scope.cancel()


async def check(shop: Shop, connection: asyncpg.Connection, count: int) -> None:
    """All is handled and settled; each key in its order; what was published along with it is there once."""
    await shop.until(count)
    await until(settled(shop.app, shop.orders.name))
    expected = {f"key-{key}": list(range(key, count, KEYS)) for key in range(KEYS)}
    assert shop.firsts() == expected
    rows = await connection.fetch(
        """
        SELECT key, payload FROM streams.records JOIN streams.topics USING (topic_id)
        WHERE name = $1 ORDER BY partition, "offset"
        """,
        shop.doubled.name,
    )
    doubled: dict[str, list[int]] = defaultdict(list)
    for key, payload in rows:
        doubled[key].append(int(payload))
    assert doubled == {key: [2 * number for number in numbers] for key, numbers in expected.items()}


CUT = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND query ~* $1
"""


@pytest.mark.parametrize("whose", ["", "streams.beat", "LISTEN", "streams.settle", "streams.records"], ids=str)
async def test_a_worker_whose_connections_are_cut_goes_on(
    place: str, store: PostgresStore, connect: Connect, whose: str
) -> None:
    connection = await connect()
    async with at_work(place) as shop:
        await shop.publish(0, RECORDS // 2)
        await shop.until(50)
        for _ in range(3):
            await until(lambda: connection.fetchval(CUT, whose))
            await anyio.sleep(0.05)
        await shop.publish(RECORDS // 2, RECORDS - RECORDS // 2)
        await check(shop, connection, RECORDS)


@pytest.mark.parametrize("how", ["restart", "kill"])
async def test_a_worker_whose_server_goes_away_goes_on_when_it_is_there_again(
    place: str, store: PostgresStore, connect: Connect, server: Server, how: str
) -> None:
    def away() -> None:
        getattr(server, "stop" if how == "restart" else how)()
        time.sleep(0.3)
        server.start()

    async with at_work(place) as shop:
        await shop.publish(0, RECORDS)
        await shop.until(50)
        await run_sync(away)
        await check(shop, await connect(), RECORDS)


class Readers:
    """Workers of groups of one topic, which write down what they handle."""

    def __init__(self, url: str, topic: TopicRow, *groups: str) -> None:
        self.app = Streams(url, lease_seconds=5)
        self.seen: dict[str, list[Seen]] = {group: [] for group in groups}
        declared = self.app.topic(topic.name, int, partitions=topic.partitions)
        for group in groups:
            self.app.subscribe(declared, group=group)(self._handler(self.seen[group]))

    def _handler(self, seen: list[Seen]) -> Callable[[int, Context], Awaitable[None]]:
        async def handle(number: int, ctx: Context) -> None:
            seen.append((ctx.key, b"%d" % number))

        return handle


async def test_two_groups_see_one_order_of_each_key_among_24_writers_and_so_does_a_third_later(
    place: str, store: PostgresStore, shipments: TopicRow, connect: Connect
) -> None:
    writers = Writers(store, shipments, 2, longest_seconds=0.1)
    meanwhile, later = Readers(place, shipments, "first", "second"), Readers(place, shipments, "third")
    with anyio.fail_after(60):
        async with meanwhile.app, anyio.create_task_group() as working:
            working.start_soon(meanwhile.app.work)
            async with anyio.create_task_group() as writing:
                await writers.start(writing, connect, 2)
            await until(settled(meanwhile.app, shipments.name))
            working.cancel_scope.cancel()
        await later.app.work(until_idle=True)
    writers.check([*meanwhile.seen.values(), *later.seen.values()])


async def test_a_transaction_that_stays_open_delays_only_its_key_and_what_is_published_under_it(
    place: str, store: PostgresStore, connect: Connect
) -> None:
    holder = await connect()
    async with at_work(place) as shop:
        for topic in (shop.orders, shop.doubled):  # Whoever makes a topic keeps others waiting until it commits.
            await topic.publish("first", -2)
        async with holder.transaction():
            await shop.orders.publish("held", -1, connection=holder)
            await shop.doubled.publish("key-3", -1, connection=holder)
            await shop.publish(0, RECORDS)
            await shop.until(1 + RECORDS - RECORDS // KEYS)
            assert "held" not in shop.handled
            assert len(shop.handled["key-3"]) < RECORDS // KEYS, "where its output waits, so does the key"
        await until(lambda: shop.has("held"))
        await shop.until(RECORDS + 2)
        await until(settled(shop.app, shop.orders.name))
        assert shop.firsts().pop("held") == [-1]
        assert shop.firsts()["key-3"] == list(range(3, RECORDS, KEYS))


@pytest.mark.parametrize("hours", [-1, 1])
async def test_only_the_databases_clock_counts(
    store: PostgresStore,
    orders: TopicRow,
    somebody: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    hours: int,
) -> None:
    true_time, true_time_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: true_time() + hours * 3600)
    monkeypatch.setattr(time, "time_ns", lambda: true_time_ns() + hours * 3600 * 10**9)
    me = await join(store, orders, lease_seconds=10)
    assert await store.beat(me, turned=True, stopping=False)
    await store.append([record(orders, "a")])
    now = await somebody.fetchval("SELECT streams.now()")
    row = next(row for row in (await store.view([])).members if row.member == me)
    assert now - 5 * MICROS < row.alive_until - 10 * MICROS <= now
    assert now - 5 * MICROS < await somebody.fetchval("SELECT max(published_at) FROM streams.records") <= now
    assert me in {one.member for one in await store.members()}

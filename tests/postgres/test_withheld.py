"""What a handler publishes may find the slot of its key taken by somebody's open transaction."""

from collections import Counter
from collections.abc import AsyncIterator

import anyio
import asyncpg
import pytest

from streams import Context, Retry, Streams
from tests.postgres.locks import fill, key_of_each_slot
from tests.servers.server import Server
from tests.worker.bench import until


@pytest.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def is_settled(app: Streams) -> bool:
    return not any(group.lag or group.parked for group in await app.admin.groups())


async def test_a_record_whose_output_finds_its_slot_taken_waits_and_holds_up_nothing_but_its_key(
    database: str, connection: asyncpg.Connection
) -> None:
    app = Streams(database, lease_seconds=2)
    orders = app.topic("orders", int, partitions=1)
    invoices = app.topic("invoices", int, partitions=1)
    handled: list[tuple[str | None, int]] = []

    @orders.subscribe(group="billing")
    async def bill(number: int, ctx: Context) -> None:
        handled.append((ctx.key, number))
        await ctx.publish(invoices, ctx.key, number)

    async def written() -> list[tuple[str, bytes]]:
        rows = await connection_of_reader.fetch(
            "SELECT r.key, r.payload FROM streams.records r JOIN streams.topics t USING (topic_id) "
            """WHERE t.name = 'invoices' AND r.payload <> '0' ORDER BY r."offset" """
        )
        return [(row["key"], row["payload"]) for row in rows]

    async def has_written(count: int) -> bool:
        return len(await written()) == count

    connection_of_reader = await asyncpg.connect(database)
    async with app:
        await orders.publish("taken", 1)
        await invoices.publish("other", 0)
        transaction = connection.transaction()
        await transaction.start()
        await invoices.publish("taken", 0, connection=connection)
        for number in range(2, 4):
            await orders.publish("taken", number)
        for number in range(1, 6):
            await orders.publish("free", number)
        async with anyio.create_task_group() as group:
            group.start_soon(app.work)
            with anyio.fail_after(30):
                await until(lambda: has_written(5))
            assert await written() == [("free", b"%d" % number) for number in range(1, 6)]
            assert [number for key, number in handled if key == "taken"] == [1], "its followers wait"
            (status,) = await app.admin.groups()
            assert (status.partitions[0].position, status.lag) == (0, 3)
            await transaction.commit()
            with anyio.fail_after(30):
                await until(lambda: has_written(8))
            with anyio.fail_after(30):
                await until(lambda: is_settled(app))
            group.cancel_scope.cancel()
    assert [row for row in await written() if row[0] == "taken"] == [("taken", b"%d" % n) for n in range(1, 4)]
    assert [number for key, number in handled if key == "taken"] == [1, 2, 3], "and nothing was handled twice"
    await connection_of_reader.close()


async def test_a_handover_does_not_wait_for_what_is_withheld(database: str, connection: asyncpg.Connection) -> None:
    first, second = (Streams(database, lease_seconds=2) for _ in range(2))
    handled: list[tuple[str, int]] = []
    for name, app in (("first", first), ("second", second)):
        orders = app.topic("orders", int, partitions=2)
        app.topic("invoices", int, partitions=1)

        async def bill(number: int, ctx: Context, app: Streams = app, name: str = name) -> None:
            handled.append((name, number))
            await ctx.publish("invoices", "taken", number)

        orders.subscribe(group="billing")(bill)
    async with first, second:
        await first.publish("invoices", "other", 0)
        transaction = connection.transaction()
        await transaction.start()
        await first.publish("invoices", "taken", 0, connection=connection)
        for number in range(20):
            await first.publish("orders", f"key-{number}", number)
        async with anyio.create_task_group() as group:
            group.start_soon(first.work)
            with anyio.fail_after(30):
                await until(lambda: len(handled) == 20)
            group.start_soon(second.work)
            with anyio.fail_after(30):
                await until(lambda: any(name == "second" for name, _ in handled))
            await transaction.rollback()
            with anyio.fail_after(30):
                await until(lambda: is_settled(first))
            group.cancel_scope.cancel()
    rows = await connection.fetch("SELECT payload FROM streams.records WHERE key = 'taken'")
    assert sorted(int(row["payload"]) for row in rows) == list(range(20)), "each once"


async def test_outputs_that_need_more_locks_than_the_server_has_are_committed_in_parts(small_server: Server) -> None:
    url = small_server.create_database()
    app = Streams(url)
    orders = app.topic("orders", int, partitions=8)
    invoices = app.topic("invoices", int, partitions=8)
    handled: Counter[int] = Counter()
    ready = anyio.Event()

    @orders.subscribe(group="billing", concurrency=2_000)
    async def bill(number: int, ctx: Context) -> None:
        handled[number] += 1
        if len(handled) == 2_000:
            ready.set()
        await ready.wait()  # So that a commit has many outputs.
        ctx.publish(invoices, ctx.key, number)

    hog = await asyncpg.connect(url)
    async with app:
        keys = key_of_each_slot()[:2_000]
        await orders.publish_many((key, number) for number, key in enumerate(keys))
        await fill(hog, room=400)
        refused = small_server.log().count("out of shared memory")
        with anyio.fail_after(60):
            await app.work(until_idle=True)
        assert small_server.log().count("out of shared memory") > refused
        assert {topic.topic: topic.records for topic in await app.admin.topics()} == {
            "invoices": 2_000,
            "orders": 2_000,
        }
    assert set(handled.values()) == {1}
    await hog.close()


async def test_a_record_that_failed_before_it_published_leaves_no_row_behind(database: str) -> None:
    app = Streams(database)
    orders = app.topic("orders", int, partitions=1)
    invoices = app.topic("invoices", int, partitions=1)

    @orders.subscribe(group="billing", retry=Retry(wait=lambda _: 0.05))
    async def bill(number: int, ctx: Context) -> None:
        if ctx.attempt < 3:
            raise ValueError("not yet")
        ctx.publish(invoices, ctx.key, number)

    async with app:
        await orders.publish("key", 1)
        with anyio.fail_after(20):
            await app.work(until_idle=True)
        (status,) = await app.admin.groups()
        assert (status.lag, status.parked) == (0, 0)
        assert {topic.topic: topic.records for topic in await app.admin.topics()} == {"invoices": 1, "orders": 1}

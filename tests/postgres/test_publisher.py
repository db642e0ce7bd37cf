"""A slot that somebody's transaction holds makes only its own keys late, and they come in their order."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count

import anyio
import asyncpg
import pytest

import streams.publisher
from streams import PublishFailed, StoreBusy, Streams, Topic
from streams.stores.postgres import schema
from streams.stores.statements import statements
from tests.postgres.conftest import Connect, numbers
from tests.postgres.locks import fill, key_of_each_slot
from tests.postgres.transaction import waited_for
from tests.servers.server import Server

SOON_SECONDS = 5.0


@pytest.fixture
async def topic(place: str) -> AsyncIterator[Topic[int]]:
    """A topic of one partition of an entered app."""
    async with Streams(place) as app:
        topic = app.topic(f"numbers-{next(numbers)}", int, partitions=1)
        await topic.publish("first of all", 0)
        yield topic


@pytest.fixture
async def holder(topic: Topic[int], connect: Connect) -> asyncpg.Connection:
    """Somebody with an open transaction that has published under K."""
    connection = await connect()
    await connection.execute("BEGIN")
    await topic.publish("K", 1, connection=connection)
    return connection


async def published(connection: asyncpg.Connection, topic: Topic[int], key: str = "K") -> list[int]:
    """The payloads under a key, in the order of the topic."""
    rows = await connection.fetch(
        """
        SELECT payload FROM streams.records JOIN streams.topics USING (topic_id)
        WHERE name = $1 AND key = $2 ORDER BY "offset"
        """,
        topic.name,
        key,
    )
    return [int(row["payload"]) for row in rows]


@asynccontextmanager
async def together() -> AsyncIterator[Callable[..., None]]:
    """Start publishes in the order of the calls, each in a task of its own; they have ended after the block."""
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:

            def start(topic: Topic[int], key: str, *payloads: int) -> None:
                for payload in payloads:
                    group.start_soon(topic.publish, key, payload)

            yield start


async def test_other_keys_go_at_once_and_the_key_that_is_held_comes_in_its_order(
    topic: Topic[int], holder: asyncpg.Connection, connect: Connect
) -> None:
    watcher = await connect()
    async with together() as start:
        start(topic, "K", 2, 3)
        with anyio.fail_after(SOON_SECONDS):
            for number in range(20):
                await topic.publish(f"other-{number}", number)
        start(topic, "K", 4, 5)
        await waited_for(watcher)
        start(topic, "K", 6, 7)
        with anyio.fail_after(SOON_SECONDS):
            for number in range(20):
                await topic.publish(f"other-{number}", number)
        assert await published(watcher, topic) == []
        await holder.execute("COMMIT")
    assert await published(watcher, topic) == [1, 2, 3, 4, 5, 6, 7]


async def test_the_key_comes_when_the_holder_rolls_back_too(
    topic: Topic[int], holder: asyncpg.Connection, connect: Connect
) -> None:
    async with together() as start:
        start(topic, "K", 2, 3)
        await waited_for(holder)
        await holder.execute("ROLLBACK")
    assert await published(await connect(), topic) == [2, 3]


async def test_two_holders_who_take_turns_do_not_starve_the_publisher(
    topic: Topic[int], holder: asyncpg.Connection, connect: Connect
) -> None:
    one, other = holder, await connect()
    done = anyio.Event()

    async def publish() -> None:
        await topic.publish("K", -1)
        done.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(publish)
            for number in count(2):
                # The other one queues for the slot before this one lets go of it, so that it is never free.
                await other.execute("BEGIN")
                async with anyio.create_task_group() as turn:
                    turn.start_soon(partial(topic.publish, "K", number, connection=other))
                    await anyio.sleep(0.02)
                    await one.execute("COMMIT")
                one, other = other, one
                if done.is_set():
                    break
            await one.execute("COMMIT")
    assert -1 in await published(one, topic)


async def test_what_is_late_goes_before_what_comes_when_the_slot_is_free(
    topic: Topic[int], holder: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams.publisher, "TRIES", 1 << 60)  # It goes on trying, with pauses.
    for number in (10, 20, 30):
        async with together() as start:
            start(topic, "K", number, number + 1)
            await anyio.sleep(0.2)
            await holder.execute("COMMIT")
            start(topic, "K", number + 2)
        await holder.execute("BEGIN")
        await topic.publish("K", number + 3, connection=holder)
    assert await published(holder, topic) == [1, *range(10, 14), *range(20, 24), *range(30, 34)]


@pytest.fixture
def short_of_patience(topic: Topic[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for a slot waits for 0.3 s instead of 30."""
    known = statements(schema.PACKAGE, "streams")
    assert "'30s'" in known["begin_waiting"]
    monkeypatch.setitem(known, "begin_waiting", known["begin_waiting"].replace("'30s'", "'300ms'"))


async def test_a_key_that_is_held_for_too_long_is_store_busy_and_nothing_is_written(
    topic: Topic[int], holder: asyncpg.Connection, short_of_patience: None
) -> None:
    with pytest.raises(StoreBusy, match="nothing was written") as caught:
        await topic.publish("K", 2)
    assert caught.value.written == 0
    await holder.execute("COMMIT")
    await topic.publish("K", 3)
    assert await published(holder, topic) == [1, 3]


async def test_of_many_with_one_key_that_is_held_all_others_are_written(
    topic: Topic[int], holder: asyncpg.Connection, connect: Connect
) -> None:
    watcher = await connect()
    items = [("K" if number % 5 == 2 else f"other-{number % 50}", number) for number in range(2, 800)]
    async with anyio.create_task_group() as group:
        group.start_soon(topic.publish_many, items)
        await waited_for(watcher)
        seen = await published(watcher, topic, "other-3")
        assert seen[:4] == [3, 53, 103, 153]
        assert await published(watcher, topic) == []
        await holder.execute("COMMIT")
    for key in ("K", "other-3", "other-49"):
        assert await published(watcher, topic, key) == [1] * (key == "K") + [n for k, n in items if k == key]


async def test_of_many_with_one_key_that_is_held_too_long_it_is_told_how_many_were_written(
    topic: Topic[int], holder: asyncpg.Connection, short_of_patience: None
) -> None:
    items = [("K" if number == 2 else f"other-{number}", number) for number in range(2, 102)]
    with pytest.raises(PublishFailed) as caught:
        await topic.publish_many(items)
    assert caught.value.written == 99
    assert isinstance(caught.value.__cause__, StoreBusy)
    assert await published(holder, topic, "other-101") == [101]


async def test_a_cancelled_publish_of_a_key_that_is_held_harms_no_other(
    topic: Topic[int], holder: asyncpg.Connection
) -> None:
    async with together() as start:
        with anyio.move_on_after(0.1):
            await topic.publish("K", 2)
        start(topic, "K", 3)
        await waited_for(holder)
        await holder.execute("COMMIT")
    assert (await published(holder, topic))[-1] == 3


async def test_a_full_lock_table_makes_writes_smaller_and_nothing_fails(small_server: Server) -> None:
    url = small_server.create_database()
    items = [(key, number) for number, key in enumerate(key_of_each_slot())]
    async with Streams(url) as app:
        topic = app.topic("numbers", int, partitions=2)
        await topic.publish("first", 0)
        hog = await asyncpg.connect(url)
        try:
            await fill(hog, room=300)
            refused = small_server.log().count("out of shared memory")
            assert await topic.publish_many(items) == 4_096
            assert small_server.log().count("out of shared memory") > refused
            assert await hog.fetchval("SELECT count(*) FROM streams.records") == 4_097
        finally:
            await hog.close()


async def test_a_burst_that_no_write_can_carry_keeps_the_order_of_the_calls(
    topic: Topic[int], connect: Connect
) -> None:
    """More than the locks of one write, and what comes meanwhile does not overtake what was left over."""
    async with together() as start:
        for number in range(7_000):
            start(topic, f"key-{number % 3}", number)
    for key in range(3):
        assert await published(await connect(), topic, f"key-{key}") == list(range(key, 7_000, 3))

"""Concurrent publishes share a write, and nothing else: each caller gets its own answer."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup

from streams import (
    NotEntered,
    PublishUncertain,
    Receipt,
    StoreBusy,
    StoreUnavailable,
    Streams,
    StreamsError,
    Topic,
    TopicMismatch,
    UnknownTopic,
)
from streams.publisher import WRITE_BYTES, WRITE_RECORDS, Publisher
from streams.stores.memory import MemoryStore
from tests.conformance.samples import payloads_of
from tests.publish.faults import Faulty, Payloads
from tests.publish.stored import payloads

Outcome = list[int] | BaseException


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


@pytest.fixture
def app() -> Streams:
    return Streams("memory://")


@pytest.fixture
def orders(app: Streams) -> Topic[int]:
    return app.topic("orders", int, partitions=1)


@pytest.fixture
def store() -> Faulty:
    return Faulty(MemoryStore())


@asynccontextmanager
async def running(publisher: Publisher) -> AsyncIterator[TaskGroup]:
    """A publisher at work, and a group for those who publish; at the end everybody has to have got an answer."""
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(publisher.run)
            async with anyio.create_task_group() as callers:
                yield callers
            publisher.close()


class Callers:
    """Those who publish, and what each was told."""

    def __init__(self, publisher: Publisher, group: TaskGroup) -> None:
        self.outcomes: dict[int, Outcome] = {}
        self._publisher = publisher
        self._group = group

    async def publish(self, topic: Topic[int], *numbers: int) -> anyio.CancelScope:
        """Start a caller and let it come as far as it can; its scope."""
        scope = anyio.CancelScope()
        self._group.start_soon(self._publish, topic, numbers, scope)
        await anyio.wait_all_tasks_blocked()
        return scope

    async def _publish(self, topic: Topic[int], numbers: tuple[int, ...], scope: anyio.CancelScope) -> None:
        with scope:
            try:
                records = [topic.prepare("key", number, None) for number in numbers]
                self.outcomes[numbers[0]] = await self._publisher.append(topic, records)
            except Exception as error:
                self.outcomes[numbers[0]] = error


@asynccontextmanager
async def callers_during_a_write(store: Faulty, orders: Topic[int]) -> AsyncIterator[Callers]:
    """Caller 0's record is being written; it goes on when the block ends."""
    publisher = Publisher(store)
    async with running(publisher) as group:
        callers = Callers(publisher, group)
        store.gate.close()
        await callers.publish(orders, 0)
        assert store.writes == [[b"0"]]
        yield callers
        store.gate.open()


async def test_a_publish_alone_waits_for_nobody(store: Faulty, orders: Topic[int]) -> None:
    publisher = Publisher(store)
    async with running(publisher) as group:
        callers = Callers(publisher, group)
        for number in range(3):
            await callers.publish(orders, number)
            assert callers.outcomes[number] == [number + 1]
    assert store.writes == [[b"0"], [b"1"], [b"2"]]


async def test_those_that_arrive_during_a_write_share_the_next(store: Faulty, orders: Topic[int]) -> None:
    async with callers_during_a_write(store, orders) as callers:
        for number in range(1, 10):
            await callers.publish(orders, number)
        assert callers.outcomes == {}
    assert store.writes == [[b"0"], [b"%d" % number for number in range(1, 10)]]
    assert callers.outcomes == {number: [number + 1] for number in range(10)}


async def test_each_caller_gets_the_offsets_of_its_own_records(store: Faulty, orders: Topic[int]) -> None:
    async with callers_during_a_write(store, orders) as callers:
        await callers.publish(orders, 1, 2, 3)
        await callers.publish(orders, 4)
        await callers.publish(orders, 5, 6)
    assert callers.outcomes == {0: [1], 1: [2, 3, 4], 4: [5], 5: [6, 7]}


async def test_topics_share_a_write_too(store: Faulty, app: Streams, orders: Topic[int]) -> None:
    clicks = app.topic("clicks", int, partitions=1)
    async with callers_during_a_write(store, orders) as callers:
        await callers.publish(clicks, 1)
        await callers.publish(orders, 2)
    assert store.writes == [[b"0"], [b"1", b"2"]]
    assert callers.outcomes == {0: [1], 1: [1], 2: [2]}


async def test_a_write_has_a_bound(store: Faulty, orders: Topic[int]) -> None:
    size = WRITE_RECORDS // 2
    async with callers_during_a_write(store, orders) as callers:
        for number in range(1, 4):
            await callers.publish(orders, *[number] * size)
    assert [len(write) for write in store.writes] == [1, 2 * size, size]


async def test_a_write_has_a_bound_in_bytes(store: Faulty, app: Streams) -> None:
    images = app.topic("images", bytes, partitions=1, max_payload=WRITE_BYTES)
    large = images.prepare(None, bytes(WRITE_BYTES // 2), None)
    publisher = Publisher(store)
    async with running(publisher) as group:
        store.gate.close()
        for count in (1, 1, 1, 1, 3, 1):
            group.start_soon(publisher.append, images, [large] * count)
            await anyio.wait_all_tasks_blocked()
        store.gate.open()
    assert [len(write) for write in store.writes] == [1, 2, 1, 3, 1]


async def test_one_caller_may_have_more_than_the_bound(store: Faulty, orders: Topic[int]) -> None:
    async with callers_during_a_write(store, orders) as callers:
        await callers.publish(orders, *[1] * (WRITE_RECORDS + 1))
        await callers.publish(orders, 2)
    assert [len(write) for write in store.writes] == [1, WRITE_RECORDS + 1, 1]


async def test_a_caller_cancelled_before_the_write_withdraws_its_record(store: Faulty, orders: Topic[int]) -> None:
    async with callers_during_a_write(store, orders) as callers:
        await callers.publish(orders, 1)
        scope = await callers.publish(orders, 2)
        await callers.publish(orders, 3)
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
    assert store.writes == [[b"0"], [b"1", b"3"]]
    assert callers.outcomes == {0: [1], 1: [2], 3: [3]}


async def test_a_caller_cancelled_during_the_write_leaves_its_record_and_harms_no_other(
    store: Faulty, orders: Topic[int]
) -> None:
    publisher = Publisher(store)
    async with running(publisher) as group:
        callers = Callers(publisher, group)
        store.gate.close()
        scope = await callers.publish(orders, 0)
        await callers.publish(orders, 1)
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        store.gate.open()
    assert store.writes == [[b"0"], [b"1"]]
    assert callers.outcomes == {1: [2]}


async def test_a_failure_that_concerns_one_caller_harms_no_other(store: Faulty, orders: Topic[int]) -> None:
    def refuse(payloads: Payloads) -> None:
        if b"2" in payloads:
            raise UnknownTopic("orders", "the topic was deleted meanwhile; nothing was written")

    async with callers_during_a_write(store, orders) as callers:
        store.before = refuse
        for number in (1, 2, 3):
            await callers.publish(orders, number)
    assert store.writes == [[b"0"], [b"1", b"2", b"3"], [b"1"], [b"2"], [b"3"]]
    assert isinstance(callers.outcomes.pop(2), UnknownTopic)
    assert callers.outcomes == {0: [1], 1: [2], 3: [3]}


async def test_a_topic_that_differs_harms_no_other(store: Faulty, app: Streams, orders: Topic[int]) -> None:
    await store.ensure_topic("clicks", 7, "json")
    clicks = app.topic("clicks", int, partitions=1)
    async with callers_during_a_write(store, orders) as callers:
        await callers.publish(orders, 1)
        await callers.publish(clicks, 2)
        await callers.publish(orders, 3)
    assert isinstance(callers.outcomes.pop(2), TopicMismatch)
    assert callers.outcomes == {0: [1], 1: [2], 3: [3]}


@pytest.mark.parametrize("kind", [StoreBusy, StoreUnavailable])
async def test_a_database_that_is_away_is_told_to_all_and_nothing_is_written(
    store: Faulty, orders: Topic[int], kind: type[StreamsError]
) -> None:
    def away(payloads: Payloads) -> None:
        raise kind("away; nothing was written")

    async with callers_during_a_write(store, orders) as callers:
        store.before = away
        for number in (1, 2, 3):
            await callers.publish(orders, number)
    told = list(callers.outcomes.values())
    assert [type(error) for error in told] == [kind] * 4
    assert len({id(error) for error in told}) == 4
    assert {str(error) for error in told} == {"away; nothing was written"}
    assert store.writes == [[b"0"], [b"1", b"2", b"3"]]
    row = await store.ensure_topic("orders", 1, "json")
    assert await payloads_of(store.store, row) == []  # type: ignore[arg-type]


async def test_a_database_that_came_back_is_used(store: Faulty, orders: Topic[int]) -> None:
    def away(payloads: Payloads) -> None:
        raise StoreUnavailable("away; nothing was written")

    publisher = Publisher(store)
    async with running(publisher) as group:
        callers = Callers(publisher, group)
        usual, store.before = store.before, away
        await callers.publish(orders, 0)
        store.before = usual
        await callers.publish(orders, 1)
    assert isinstance(callers.outcomes[0], StoreUnavailable)
    assert callers.outcomes[1] == [1]


async def test_a_lost_answer_is_told_to_all_and_never_tried_again(store: Faulty, orders: Topic[int]) -> None:
    def lose(payloads: Payloads) -> None:
        raise PublishUncertain("the answer was lost")

    async with callers_during_a_write(store, orders) as callers:
        store.after = lose
        for number in (1, 2):
            await callers.publish(orders, number)
    assert [type(error) for error in callers.outcomes.values()] == [PublishUncertain] * 3
    assert store.writes == [[b"0"], [b"1", b"2"]]
    row = await store.ensure_topic("orders", 1, "json")
    assert await payloads_of(store.store, row) == [b"0", b"1", b"2"]  # type: ignore[arg-type]


async def test_an_error_that_nobody_expected_does_not_end_the_publisher(store: Faulty, orders: Topic[int]) -> None:
    def fail(payloads: Payloads) -> None:
        if b"1" in payloads:
            raise ZeroDivisionError("a bug")

    async with callers_during_a_write(store, orders) as callers:
        store.before = fail
        await callers.publish(orders, 1)
        await callers.publish(orders, 2)
    assert isinstance(callers.outcomes[1], ZeroDivisionError)
    assert callers.outcomes[2] == [2]


async def test_the_records_of_a_key_are_in_the_order_of_the_calls(url: str, path: Path) -> None:
    app = Streams(url)
    orders = app.topic("orders", int, partitions=4)
    called: list[bytes] = []

    async def publish(number: int) -> None:
        for step in range(3):
            called.append(b"%d" % (3 * number + step))
            await orders.publish("key", 3 * number + step)

    async with app, anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(publish, number)
            await anyio.lowlevel.checkpoint()
    assert payloads(path) == called


async def test_nobody_overtakes_the_first_publishes_of_a_topic(store: Faulty, orders: Topic[int]) -> None:
    """The topic's row is being looked up when the second comes, and known when the third does."""
    publisher = Publisher(store)
    async with running(publisher) as group:
        callers = Callers(publisher, group)
        store.topic_gate.close()
        await callers.publish(orders, 0)
        await callers.publish(orders, 1)
        store.topic_gate.open()
        await callers.publish(orders, 2)
    assert [payload for write in store.writes for payload in write] == [b"0", b"1", b"2"]


async def test_what_waits_when_the_publisher_is_closed_is_written(store: Faulty, orders: Topic[int]) -> None:
    publisher = Publisher(store)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(publisher.run)
            callers = Callers(publisher, group)
            store.gate.close()
            await callers.publish(orders, 0)
            await callers.publish(orders, 1)
            publisher.close()
            await callers.publish(orders, 2)
            store.gate.open()
    assert isinstance(callers.outcomes.pop(2), NotEntered)
    assert callers.outcomes == {0: [1], 1: [2]}


async def test_a_publisher_that_is_cancelled_leaves_nobody_waiting(store: Faulty, orders: Topic[int]) -> None:
    publisher = Publisher(store)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as outside, anyio.create_task_group() as group:
            group.start_soon(publisher.run)
            callers = Callers(publisher, outside)
            store.gate.close()
            await callers.publish(orders, 0)
            await callers.publish(orders, 1)
            group.cancel_scope.cancel()
    assert isinstance(callers.outcomes[0], PublishUncertain)
    assert isinstance(callers.outcomes[1], NotEntered)


async def test_a_publisher_cancelled_while_it_writes_one_by_one_leaves_nobody_waiting(
    store: Faulty, orders: Topic[int]
) -> None:
    def fail(payloads: Payloads) -> None:
        if len(payloads) > 1:
            store.gate.close()
            raise StreamsError("one by one now")

    publisher = Publisher(store)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as outside, anyio.create_task_group() as group:
            group.start_soon(publisher.run)
            callers = Callers(publisher, outside)
            store.gate.close()
            await callers.publish(orders, 0)
            for number in (1, 2, 3):
                await callers.publish(orders, number)
            store.before = fail
            store.gate.open()
            await anyio.wait_all_tasks_blocked()
            assert store.writes == [[b"0"], [b"1", b"2", b"3"], [b"1"]]
            group.cancel_scope.cancel()
    assert callers.outcomes.pop(0) == [1]
    assert [type(error) for error in callers.outcomes.values()] == [PublishUncertain] * 3


async def test_an_app_that_is_left_writes_what_waits(url: str, path: Path) -> None:
    app = Streams(url)
    orders = app.topic("orders", int, partitions=1)
    called: list[int] = []
    receipts: list[Receipt] = []

    async def publish(number: int) -> None:
        called.append(number)
        receipts.append(await orders.publish("key", number))

    with anyio.fail_after(10):
        async with anyio.create_task_group() as outside, app:
            for number in range(50):
                outside.start_soon(publish, number)
            while len(called) < 50:
                await anyio.lowlevel.checkpoint()
    assert len(receipts) == 50
    assert payloads(path) == [b"%d" % number for number in called]


async def test_an_app_whose_block_is_cancelled_leaves_nobody_waiting(url: str) -> None:
    app = Streams(url)
    orders = app.topic("orders", int)
    outcomes: list[str] = []

    async def publish(number: int) -> None:
        try:
            await orders.publish("key", number)
            outcomes.append("done")
        except StreamsError as error:
            outcomes.append(type(error).__name__)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as outside:
            with anyio.CancelScope() as scope:
                async with app:
                    for number in range(20):
                        outside.start_soon(publish, number)
                    await anyio.lowlevel.checkpoint()
                    scope.cancel()
                    await anyio.sleep_forever()
    assert len(outcomes) == 20
    assert set(outcomes) <= {"done", "NotEntered", "PublishUncertain"}


async def publish_all(orders: Topic[int], numbers: range) -> list[Receipt | StreamsError]:
    outcomes: list[Receipt | StreamsError] = []

    async def publish(number: int) -> None:
        try:
            outcomes.append(await orders.publish("key", number))
        except StreamsError as error:
            outcomes.append(error)

    async with anyio.create_task_group() as group:
        for number in numbers:
            group.start_soon(publish, number)
    return outcomes


async def test_a_held_write_lock_is_told_to_all_who_wait_and_nothing_is_written(url: str, path: Path) -> None:
    app = Streams(f"{url}?busy_seconds=0.1")
    orders = app.topic("orders", int, partitions=1)
    async with app:
        assert (await orders.publish("key", 0)).offset == 1
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with anyio.fail_after(5):
                outcomes = await publish_all(orders, range(1, 20))
        assert [type(outcome) for outcome in outcomes] == [StoreBusy] * 19
        assert payloads(path) == [b"0"]
        assert (await orders.publish("key", 20)).offset == 2


async def test_many_publishes_take_few_transactions(url: str, path: Path) -> None:
    app = Streams(url)
    orders = app.topic("orders", int, partitions=1)
    async with app:
        await publish_all(orders, range(500))
    with closing(sqlite3.connect(path)) as connection:  # All records of a write have one time.
        query = "SELECT count(*), count(DISTINCT published_at) FROM streams_records"
        records, writes = connection.execute(query).fetchone()
    assert records == 500
    assert writes <= 20

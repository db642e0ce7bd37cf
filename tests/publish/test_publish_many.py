"""`publish_many` takes any iterable in bounded memory; when it ends early, of each key a prefix is there."""

import enum
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from streams import (
    InvalidHeaders,
    InvalidKey,
    InvalidPayload,
    PayloadTooLarge,
    PublishFailed,
    PublishUncertain,
    StoreBusy,
    Streams,
    Topic,
)
from streams.batch import BATCH_BYTES, BATCH_RECORDS
from streams.record import decode_headers
from streams.stores import open_store
from tests.publish.faults import Faulty, Payloads
from tests.publish.stored import payloads, stored


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


@pytest.fixture
def app(url: str) -> Streams:
    return Streams(url)


@pytest.fixture
def orders(app: Streams) -> Topic[int]:
    return app.topic("orders", int, partitions=4)


class Numbers:
    """Counts how far ahead of what is written its items were asked for."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.given = 0
        self.highest = 0
        self.written = 0

    def generate(self) -> Iterator[tuple[int, int]]:
        for number in range(self.count):
            self.given += 1
            self.highest = max(self.highest, self.given - self.written)
            yield number % 100, number

    async def generate_slowly(self) -> AsyncIterator[tuple[int, int]]:
        for item in self.generate():
            yield item

    def wrote(self, payloads: Payloads) -> None:
        self.written += len(payloads)


def faulty(monkeypatch: pytest.MonkeyPatch) -> Faulty:
    """The store of the next app that is entered, in memory."""
    real = open_store("memory://")

    class FaultyStore(Faulty):
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    store = FaultyStore(real)
    monkeypatch.setattr("streams.app.open_store", lambda url, *, schema: store)
    return store


def items_of(count: int) -> Iterator[tuple[str, int]]:
    return (("key", number) for number in range(count))


async def generated(count: int) -> AsyncIterator[tuple[str, int]]:
    for item in items_of(count):
        await anyio.lowlevel.checkpoint()
        yield item


@pytest.mark.parametrize("kind", ["list", "tuple", "generator", "dict items", "async generator"])
async def test_any_iterable_is_published_in_its_order(app: Streams, orders: Topic[int], path: Path, kind: str) -> None:
    items: Any = {
        "list": [*items_of(10)],
        "tuple": (*items_of(10),),
        "generator": items_of(10),
        "dict items": {f"key-{number}": number for number in range(10)}.items(),
        "async generator": generated(10),
    }[kind]
    async with app:
        assert await orders.publish_many(items) == 10
    assert sorted(payloads(path)) == [b"%d" % number for number in range(10)]
    if kind != "dict items":
        assert payloads(path) == [b"%d" % number for number in range(10)]


async def test_the_app_takes_the_topic_by_name_or_handle(app: Streams, orders: Topic[int], path: Path) -> None:
    async with app:
        assert await app.publish_many("orders", [("a", 1)]) == 1
        assert await app.publish_many(orders, [("a", 2)]) == 1
    assert payloads(path) == [b"1", b"2"]


@pytest.mark.parametrize("items", [[], (), {}, iter(()), generated(0)], ids=["list", "tuple", "dict", "iter", "async"])
async def test_nothing_at_all_is_published_as_nothing(app: Streams, orders: Topic[int], path: Path, items: Any) -> None:
    async with app:
        assert await orders.publish_many(items) == 0
        assert await app.admin.topics() == []


async def test_items_may_carry_headers(app: Streams, orders: Topic[int], path: Path) -> None:
    async with app:
        assert await orders.publish_many([("a", 1, {"n": "1"}), ("a", 2, None), ("a", 3, {}), ("a", 4)]) == 4
    assert [decode_headers(record.headers) for record in stored(path)] == [{"n": "1"}, {}, {}, {}]


async def test_more_than_a_batch_is_published_in_order(app: Streams, orders: Topic[int], path: Path) -> None:
    count = 2 * BATCH_RECORDS + 1
    async with app:
        assert await orders.publish_many(items_of(count)) == count
    assert [record.offset for record in stored(path)] == list(range(1, count + 1))
    assert payloads(path) == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_no_more_than_a_batch_is_in_memory(monkeypatch: pytest.MonkeyPatch, asynchronous: bool) -> None:
    store = faulty(monkeypatch)
    numbers = Numbers(100_000)
    store.after = numbers.wrote
    app = Streams("memory://")
    async with app:
        items = numbers.generate_slowly() if asynchronous else numbers.generate()
        assert await app.topic("orders", int).publish_many(items) == 100_000
    assert numbers.highest == BATCH_RECORDS
    assert [len(write) for write in store.writes] == [BATCH_RECORDS] * 100


async def test_a_batch_of_large_payloads_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    store = faulty(monkeypatch)
    app = Streams("memory://")
    half = b"a" * (BATCH_BYTES // 8)
    async with app:
        assert await app.topic("blobs", bytes).publish_many(("key", half) for _ in range(20)) == 20
    assert [len(write) for write in store.writes] == [8, 8, 4]


class Key(enum.Enum):
    A = 1


BAD_ITEMS: dict[str, tuple[Any, type[Exception]]] = {
    "a bad payload": (("key", "text"), InvalidPayload),
    "a large payload": (("key", 10**50), PayloadTooLarge),
    "a bad key": ((True, 1), InvalidKey),
    "a key of no known kind": ((Key.A, 1), InvalidKey),
    "bad headers": (("key", 1, {"streams-a": ""}), InvalidHeaders),
    "a payload alone": (7, InvalidPayload),
    "text of two characters": ("ab", InvalidPayload),
    "one": (("key",), InvalidPayload),
    "four": (("key", 1, None, None), InvalidPayload),
    "None": (None, InvalidPayload),
    "a dict": ({"key": 1}, InvalidPayload),
}


@pytest.mark.parametrize("case", BAD_ITEMS)
async def test_a_bad_item_ends_it_with_what_was_written_and_why(app: Streams, path: Path, case: str) -> None:
    bad, kind = BAD_ITEMS[case]
    orders = app.topic("orders", int, partitions=4, max_payload=20)
    good = BATCH_RECORDS + 500
    async with app:
        with pytest.raises(PublishFailed, match=rf"'orders': 1,000 items were written; at item {good:,}: ") as failed:
            await orders.publish_many([*items_of(good), bad, *items_of(5)])
    assert failed.value.written == BATCH_RECORDS
    assert type(failed.value.__cause__) is kind
    assert str(failed.value.__cause__) in str(failed.value)
    assert payloads(path) == [b"%d" % number for number in range(BATCH_RECORDS)]


@pytest.mark.parametrize("good", [0, 1, BATCH_RECORDS - 1, BATCH_RECORDS, BATCH_RECORDS + 1])
async def test_of_each_key_a_prefix_is_there(app: Streams, orders: Topic[int], path: Path, good: int) -> None:
    items: list[Any] = [(number % 7, number) for number in range(good)]
    async with app:
        with pytest.raises(PublishFailed) as failed:
            await orders.publish_many([*items, ("bad", "item"), *items])  # type: ignore[list-item]
    records = stored(path)
    assert len(records) == failed.value.written <= good
    for key in range(7):
        published = [b"%d" % number for number in range(good) if number % 7 == key]
        there = [record.payload for record in records if record.key == str(key)]
        assert there == published[: len(there)]


async def test_an_iterable_that_raises_ends_it_and_its_error_is_the_cause(
    app: Streams, orders: Topic[int], path: Path
) -> None:
    error = ZeroDivisionError("4111-secret")

    def items() -> Iterator[tuple[str, int]]:
        yield from items_of(BATCH_RECORDS + 1)
        raise error

    async with app:
        with pytest.raises(PublishFailed, match=r"at item 1,001: ZeroDivisionError$") as failed:
            await orders.publish_many(items())
    assert failed.value.__cause__ is error
    assert failed.value.written == len(payloads(path)) == BATCH_RECORDS


async def test_an_async_iterable_that_raises_ends_it_too(app: Streams, orders: Topic[int], path: Path) -> None:
    async def items() -> AsyncIterator[tuple[str, int]]:
        async for item in generated(3):
            yield item
        raise OSError("mine")

    async with app:
        with pytest.raises(PublishFailed) as failed:
            await orders.publish_many(items())
    assert isinstance(failed.value.__cause__, OSError)
    assert failed.value.written == len(stored(path)) == 0


@pytest.mark.parametrize("items", [None, 7, len])
async def test_what_is_no_iterable_is_a_failure(app: Streams, orders: Topic[int], items: Any) -> None:
    async with app:
        with pytest.raises(PublishFailed, match="0 items were written") as failed:
            await orders.publish_many(items)
    assert isinstance(failed.value.__cause__, TypeError)


async def test_a_database_that_fails_in_between_is_told_with_what_was_written(url: str, path: Path) -> None:
    app = Streams(f"{url}?busy_seconds=0.1")
    orders = app.topic("orders", int, partitions=1)
    connection = sqlite3.connect(path, isolation_level=None)

    def items() -> Iterator[tuple[str, int]]:
        for key, number in items_of(2 * BATCH_RECORDS):
            if number == BATCH_RECORDS + 5:
                connection.execute("BEGIN IMMEDIATE")
            yield key, number

    with closing(connection):
        async with app:
            with pytest.raises(PublishFailed, match="1,000 items were written; at item 1,000: ") as failed:
                await orders.publish_many(items())
    assert failed.value.written == BATCH_RECORDS
    assert isinstance(failed.value.__cause__, StoreBusy)
    assert len(payloads(path)) == BATCH_RECORDS


async def test_a_lost_answer_is_told_with_what_was_written_before(monkeypatch: pytest.MonkeyPatch) -> None:
    store = faulty(monkeypatch)

    def lose(payloads: Payloads) -> None:
        if b"1000" in payloads:
            raise PublishUncertain("the answer was lost")

    store.after = lose
    app = Streams("memory://")
    async with app:
        with pytest.raises(PublishUncertain, match="the answer was lost; before it, 1,000 were") as lost:
            await app.topic("orders", int).publish_many(items_of(3 * BATCH_RECORDS))
    assert lost.value.written == BATCH_RECORDS
    assert len(store.writes) == 2


async def test_a_caller_that_is_cancelled_leaves_a_prefix(app: Streams, orders: Topic[int], path: Path) -> None:
    async def items() -> AsyncIterator[tuple[str, int]]:
        async for item in generated(BATCH_RECORDS + 5):
            yield item
        scope.cancel()
        await anyio.sleep_forever()

    async with app:
        with anyio.CancelScope() as scope:
            await orders.publish_many(items())
        assert scope.cancelled_caught
    assert payloads(path) == [b"%d" % number for number in range(BATCH_RECORDS)]


async def test_several_at_once_keep_each_its_order(app: Streams, orders: Topic[int], path: Path) -> None:
    async def publish(key: str) -> None:
        await orders.publish_many((key, number) for number in range(1_500))

    async with app, anyio.create_task_group() as group:
        for key in "abc":
            group.start_soon(publish, key)
    for key in "abc":
        there = [record.payload for record in stored(path) if record.key == key]
        assert there == [b"%d" % number for number in range(1_500)]

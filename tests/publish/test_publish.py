"""A publish that returned is durable and says where; one that was refused wrote nothing and burnt no offset."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from partition import partition_of
from streams import (
    InvalidHeaders,
    InvalidKey,
    InvalidPayload,
    MigrationNeeded,
    PayloadTooLarge,
    Receipt,
    StoreUnavailable,
    Streams,
)
from streams.record import decode_headers
from tests.publish.stored import Stored, payloads, stored

SETTINGS = [("sqlite", "asyncio"), ("sqlite", "trio"), ("memory", "asyncio"), ("memory", "trio")]


class Order(msgspec.Struct):
    id: int
    total: float = 0.0


@pytest.fixture(params=SETTINGS, ids="-".join)
def setting(request: pytest.FixtureRequest) -> tuple[str, str]:
    store, backend = request.param
    return store, backend


@pytest.fixture
def anyio_backend(setting: tuple[str, str]) -> str:
    return setting[1]


@pytest.fixture
def app(setting: tuple[str, str], url: str, nothing_is_left: None) -> Streams:
    return Streams("memory://" if setting[0] == "memory" else url)


on_sqlite = pytest.mark.parametrize("setting", SETTINGS[:1], ids="-".join)


async def test_a_receipt_says_topic_partition_and_offset(app: Streams) -> None:
    orders = app.topic("orders", Order, partitions=16)
    partition = partition_of("customer-7", 16)
    async with app:
        assert await orders.publish("customer-7", Order(1)) == Receipt("orders", partition, 1)
        assert await app.publish("orders", "customer-7", Order(2)) == Receipt("orders", partition, 2)
        receipt = await app.publish(orders, "customer-7", Order(3))
    assert (receipt.topic, receipt.partition, receipt.offset) == ("orders", partition, 3)


async def test_offsets_grow_from_1_in_each_partition(app: Streams) -> None:
    orders = app.topic("orders", int, partitions=4)
    async with app:
        receipts = [await orders.publish(number, number) for number in range(40)]
    for partition in range(4):
        offsets = [receipt.offset for receipt in receipts if receipt.partition == partition]
        assert offsets == list(range(1, len(offsets) + 1))


@on_sqlite
async def test_a_record_is_stored_as_it_was_published(app: Streams, path: Path) -> None:
    orders = app.topic("orders", Order, partitions=1)
    async with app:
        await orders.publish("ключ", Order(1, 2.5), headers={"trace": "abc"})
        await orders.publish(None, Order(2))
        first, second = stored(path)
    assert first == Stored("orders", 0, 1, "ключ", b'{"id":1,"total":2.5}', b'{"trace":"abc"}')
    assert decode_headers(first.headers) == {"trace": "abc"}
    assert second == Stored("orders", 0, 2, None, b'{"id":2,"total":0.0}', None)


@on_sqlite
async def test_another_process_sees_a_record_once_its_publish_has_returned(app: Streams, path: Path) -> None:
    script = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('SELECT payload FROM streams_records'))"
    async with app:
        await app.topic("orders", int).publish("a", 7)
        seen = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "(b'7',)"


REFUSALS: dict[str, tuple[Any, Any, Any, type[Exception]]] = {
    "a key": (True, Order(1), None, InvalidKey),
    "a long key": ("a" * 1025, Order(1), None, InvalidKey),
    "a payload": ("a", {"id": "x"}, None, InvalidPayload),
    "a wrong field in an instance": ("a", Order("x"), None, InvalidPayload),  # type: ignore[arg-type]
    "a large payload": ("a", {"id": 10**200}, None, PayloadTooLarge),
    "headers": ("a", Order(1), {"streams-a": "b"}, InvalidHeaders),
}


@pytest.mark.parametrize("case", REFUSALS)
async def test_a_refused_record_burns_no_offset(app: Streams, case: str) -> None:
    key, payload, headers, error = REFUSALS[case]
    orders = app.topic("orders", Order, partitions=1, max_payload=100)
    async with app:
        with pytest.raises(error):
            await orders.publish(key, payload, headers=headers)
        assert await app.admin.topics() == []
        assert (await orders.publish("a", Order(1))).offset == 1
        with pytest.raises(error):
            await orders.publish(key, payload, headers=headers)
        assert (await orders.publish("a", Order(1))).offset == 2
        (status,) = await app.admin.topics()
    assert status.records == 2


@on_sqlite
async def test_a_refusal_comes_before_any_io(app: Streams, path: Path) -> None:
    """Nobody waits for the lock that is held here."""
    orders = app.topic("orders", int)
    async with app:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with anyio.fail_after(5):
                with pytest.raises(InvalidKey):
                    await orders.publish(True, 1)
                with pytest.raises(InvalidPayload):
                    await orders.publish("a", "1")  # type: ignore[arg-type]


async def test_memory_keeps_its_records_between_entries(app: Streams, setting: tuple[str, str]) -> None:
    orders = app.topic("orders", int, partitions=1)
    for offset in (1, 2, 3):
        async with app:
            assert await orders.publish("a", 1) == Receipt("orders", 0, offset)


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite:///shop?mode=memory"])
@on_sqlite
async def test_an_in_memory_file_keeps_its_records_between_entries(url: str) -> None:
    app = Streams(url)
    orders = app.topic("orders", int, partitions=1)
    for offset in (1, 2):
        async with app:
            assert (await orders.publish("a", 1)).offset == offset


@on_sqlite
async def test_a_missing_file_and_schema_are_made_when_the_app_is_entered(app: Streams, path: Path) -> None:
    assert not path.exists()
    async with app:
        assert path.exists()


@on_sqlite
async def test_nothing_is_made_when_migrating_is_off(url: str, path: Path) -> None:
    with pytest.raises(MigrationNeeded, match="streams migrate"):
        async with Streams(url, migrate="never"):
            pass
    assert not path.exists()


@on_sqlite
async def test_an_absent_database_is_waited_for_and_then_given_up(path: Path) -> None:
    app = Streams(f"sqlite:///{path}/in/no/folder.db", connect_seconds=0.1)
    with anyio.fail_after(5), pytest.raises(StoreUnavailable, match="does not exist"):
        async with app:
            pass


@on_sqlite
async def test_a_database_that_comes_in_time_is_used(path: Path) -> None:
    folder = path.parent / "later"
    app = Streams(f"sqlite:///{folder}/streams.db", connect_seconds=30)
    orders = app.topic("orders", int)
    async with anyio.create_task_group() as group:

        async def publish() -> None:
            async with app:
                await orders.publish("a", 1)

        group.start_soon(publish)
        await anyio.wait_all_tasks_blocked()
        folder.mkdir()
    assert payloads(folder / "streams.db") == [b"1"]

"""What is appended is numbered in the order given, comes back as it was, and is written whole or not at all."""

import anyio
import pytest

from streams.errors import UnknownTopic
from streams.stores.protocol import Store
from streams.stores.rows import Publication, TopicRow
from tests.conformance.clock import Clock
from tests.conformance.handles import Handles
from tests.conformance.samples import payloads_of, publication, publications, records_of


async def test_offsets_count_from_one_in_the_order_given(store: Store, orders: TopicRow) -> None:
    assert await store.append(publications(orders, 3)) == [1, 2, 3]
    assert await payloads_of(store, orders) == [b"1", b"2", b"3"]


async def test_later_offsets_are_higher_from_whichever_handle(store: Store, other: Store, orders: TopicRow) -> None:
    found = []
    for handle in (store, other, other, store):
        found += await handle.append(publications(orders, 2))
    assert found == sorted(set(found))
    assert [record.offset for record in await records_of(other, orders)] == found


async def test_each_partition_counts_for_itself(store: Store, orders: TopicRow) -> None:
    await store.append(publications(orders, 5, partition=1))
    assert await store.append(publications(orders, 2, partition=2)) == [1, 2]


async def test_one_append_goes_to_many_partitions_of_many_topics(store: Store, orders: TopicRow) -> None:
    clicks = await store.ensure_topic("clicks", 100, "bytes")
    wanted = [
        publication(topic, partition, f"{topic.name} {partition} {turn}".encode())
        for turn in (1, 2)
        for topic in (clicks, orders)
        for partition in reversed(range(topic.partitions))
    ]
    assert await store.append(wanted) == [1] * 104 + [2] * 104
    assert await payloads_of(store, orders, 3) == [b"orders 3 1", b"orders 3 2"]
    assert await payloads_of(store, clicks, 99) == [b"clicks 99 1", b"clicks 99 2"]


async def test_appending_nothing_answers_nothing(store: Store) -> None:
    assert await store.append([]) == []


async def test_a_record_carries_the_databases_time_of_its_write(store: Store, orders: TopicRow, clock: Clock) -> None:
    await store.append(publications(orders, 2))
    first = clock.now
    clock.advance(1.5)
    await store.append(publications(orders, 1))
    times = [record.published_at for record in await records_of(store, orders)]
    assert times == [first, first, first + 1_500_000]


@pytest.mark.parametrize(
    "payload",
    [b"", b"\0", b"a\0b\0", bytes(range(256)), b'{"a": "\\u0000"}', b"\xff\xfe", b"'; DROP TABLE records; --"],
)
async def test_any_bytes_come_back_as_payload(store: Store, orders: TopicRow, payload: bytes) -> None:
    await store.append([publication(orders, payload=payload)])
    assert await payloads_of(store, orders) == [payload]


async def test_a_mebibyte_comes_back_as_payload(store: Store, orders: TopicRow) -> None:
    payload = bytes(range(256)) * 4096
    await store.append([publication(orders, payload=payload)])
    assert await payloads_of(store, orders) == [payload]


@pytest.mark.parametrize(
    "key", [None, "", " ", "7", "None", "Zoë", "客户-七", "🦑👩‍🚀", "e\u0301", "\u202ekey", "k" * 1024]
)
async def test_any_key_comes_back(store: Store, orders: TopicRow, key: str | None) -> None:
    await store.append([publication(orders, key=key)])
    (record,) = await records_of(store, orders)
    assert record.key == key


@pytest.mark.parametrize("headers", [None, b"", b"{}", b"\0\xff" * 8192])
async def test_any_headers_come_back(store: Store, orders: TopicRow, headers: bytes | None) -> None:
    await store.append([publication(orders, headers=headers)])
    (record,) = await records_of(store, orders)
    assert record.headers == headers


@pytest.mark.parametrize("place", [(0, 4), (0, -1), (9, 0)], ids=["no such partition", "a negative one", "no topic"])
async def test_an_append_that_cannot_be_whole_writes_nothing(
    store: Store, orders: TopicRow, place: tuple[int, int]
) -> None:
    beside, partition = place
    with pytest.raises(UnknownTopic):
        await store.append([publication(orders, 1), Publication(orders.id + beside, partition, None, b"", None)])
    assert await payloads_of(store, orders, 1) == []
    assert [topic.records for topic in await store.topics()] == [0]


async def test_a_cancelled_append_is_whole_or_absent(store: Store, orders: TopicRow) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.append([publication(orders, number % 4) for number in range(40)])
    assert [len(await records_of(store, orders, partition)) for partition in range(4)] in ([0] * 4, [10] * 4)


async def test_appends_from_several_handles_at_once_share_no_offset(
    store: Store, handles: Handles, orders: TopicRow
) -> None:
    found: list[list[int]] = []

    async def append(handle: Store) -> None:
        found.extend([await handle.append(publications(orders, 3)) for _ in range(10)])

    several = [store, *[await handles.open() for _ in range(3)]]
    async with anyio.create_task_group() as group:
        for handle in several:
            group.start_soon(append, handle)
    assert all(offsets == sorted(offsets) for offsets in found)
    everything = sorted(offset for offsets in found for offset in offsets)
    assert len(set(everything)) == 120
    assert [record.offset for record in await records_of(store, orders)] == everything


async def test_appends_that_overlap_on_one_handle_share_no_offset(store: Store, orders: TopicRow) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(store.append, publications(orders, 2))
    assert [record.offset for record in await records_of(store, orders)] == list(range(1, 41))


async def test_a_reader_sees_an_append_whole_or_not_at_all(store: Store, other: Store, orders: TopicRow) -> None:
    done = False

    async def write() -> None:
        nonlocal done
        for _ in range(20):
            await other.append([publication(orders, partition) for partition in range(4)])
        done = True

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        while not done:
            counts = {status.records for status in await store.topics()}
            assert all(count % 4 == 0 for count in counts)
            await anyio.lowlevel.checkpoint()

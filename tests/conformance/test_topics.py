"""Topics are made once, by whoever comes first, and stay as they were made."""

import anyio

from streams.stores.protocol import Store
from streams.stores.rows import TopicRow, TopicStatus
from tests.conformance.handles import Handles
from tests.conformance.samples import payloads_of, publication, publications


async def test_a_topic_that_nobody_made_is_none(store: Store) -> None:
    assert await store.topic("orders") is None


async def test_a_topic_is_made_as_described(store: Store) -> None:
    made = await store.ensure_topic("orders", 3, "msgpack")
    assert (made.name, made.partitions, made.codec) == ("orders", 3, "msgpack")
    assert await store.topic("orders") == made


async def test_an_existing_topic_is_returned_as_it_is(store: Store, orders: TopicRow) -> None:
    assert await store.ensure_topic("orders", 8, "bytes") == orders
    assert await store.topic("orders") == orders


async def test_every_partition_of_a_new_topic_can_be_written_and_read(store: Store) -> None:
    topic = await store.ensure_topic("wide", 4096, "bytes")
    assert await store.append([publication(topic, 0), publication(topic, 4095)]) == [1, 1]
    assert await payloads_of(store, topic, 4095) == [b"payload"]


async def test_topics_do_not_mix(store: Store, orders: TopicRow) -> None:
    clicks = await store.ensure_topic("clicks", 4, "json")
    assert clicks.id != orders.id
    await store.append([publication(orders, payload=b"order"), publication(clicks, payload=b"click")])
    assert await payloads_of(store, orders) == [b"order"]
    assert await payloads_of(store, clicks) == [b"click"]


async def test_another_handle_sees_a_topic_at_once(store: Store, other: Store) -> None:
    assert await other.topic("orders") is None
    made = await store.ensure_topic("orders", 4, "json")
    assert await other.topic("orders") == made


async def test_a_topic_is_made_once_by_several_handles_at_once(store: Store, handles: Handles) -> None:
    rows: list[TopicRow] = []

    async def ensure(handle: Store, partitions: int) -> None:
        rows.append(await handle.ensure_topic("orders", partitions, "json"))

    several = [store, *[await handles.open() for _ in range(3)]]
    async with anyio.create_task_group() as group:
        for partitions, handle in enumerate(several, start=1):
            group.start_soon(ensure, handle, partitions)
    assert rows == [rows[0]] * 4
    assert await store.topics() == [TopicStatus("orders", rows[0].partitions, "json", 0)]


async def test_all_topics_are_listed_by_name_with_their_records(store: Store) -> None:
    for name in ("b", "a", "c"):
        topic = await store.ensure_topic(name, 2, "json")
        await store.append(publications(topic, 3, partition=1) + publications(topic, 1) if name != "c" else [])
    assert await store.topics() == [
        TopicStatus("a", 2, "json", 4),
        TopicStatus("b", 2, "json", 4),
        TopicStatus("c", 2, "json", 0),
    ]


async def test_an_empty_database_has_no_topics(store: Store) -> None:
    assert await store.topics() == []

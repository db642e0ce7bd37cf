"""The bell rings when somebody has written, and never keeps a reader longer than it asked for."""

from collections.abc import AsyncIterator

import anyio
import pytest

from streams.stores.protocol import Store
from streams.stores.rows import Held, TopicRow
from tests.conformance.samples import publications, settlement

LONG = 60.0
"""Nobody waits for this: a bell that does not ring fails the test much earlier."""


@pytest.fixture
async def silent(store: Store, other: Store, orders: TopicRow) -> AsyncIterator[TopicRow]:
    """The store when all that was written before has been rung for; the test is to end within a second or two."""
    await store.rung(0)
    await other.rung(0)
    with anyio.fail_after(LONG / 10):
        yield orders


async def rings_within(store: Store, timeout_seconds: float) -> bool:
    started = anyio.current_time()
    await store.rung(timeout_seconds)
    return anyio.current_time() - started < timeout_seconds * 0.9


@pytest.mark.usefixtures("rings_for_writes_alone")
async def test_without_a_write_the_bell_returns_at_its_timeout(store: Store, silent: TopicRow) -> None:
    assert not await rings_within(store, 0.05)
    assert not await rings_within(store, 0.05)


async def test_a_bell_that_may_not_wait_returns_at_once(store: Store, silent: TopicRow) -> None:
    await store.rung(0)


async def test_a_write_of_another_handle_wakes_whoever_waits(store: Store, other: Store, silent: TopicRow) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(store.rung, LONG)
        await anyio.wait_all_tasks_blocked()
        await other.append(publications(silent, 1))


async def test_a_write_of_the_same_handle_wakes_whoever_waits(store: Store, silent: TopicRow) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(store.rung, LONG)
        await anyio.wait_all_tasks_blocked()
        await store.append(publications(silent, 1))


async def test_a_write_between_two_calls_is_not_missed(store: Store, other: Store, silent: TopicRow) -> None:
    await other.append(publications(silent, 1))
    assert await rings_within(store, LONG)
    await other.append(publications(silent, 1))
    assert await rings_within(store, LONG)


@pytest.mark.usefixtures("rings_for_writes_alone")
async def test_many_writes_ring_once(store: Store, other: Store, silent: TopicRow) -> None:
    for _ in range(5):
        await other.append(publications(silent, 1))
    assert await rings_within(store, LONG)
    assert not await rings_within(store, 0.05)


@pytest.mark.usefixtures("rings_for_writes_alone")
async def test_reading_does_not_ring(store: Store, other: Store, silent: TopicRow) -> None:
    await other.topics()
    await other.fetch([])
    assert not await rings_within(store, 0.05)


async def test_a_released_lease_rings(store: Store, other: Store, held: Held) -> None:
    await store.rung(0)
    await other.release([held.lease])
    with anyio.fail_after(LONG / 10):
        assert await rings_within(store, LONG)


async def test_what_a_settlement_publishes_rings(store: Store, other: Store, orders: TopicRow, held: Held) -> None:
    await store.rung(0)
    await other.commit([settlement(held.lease, publish=tuple(publications(orders, 1)))])
    with anyio.fail_after(LONG / 10):
        assert await rings_within(store, LONG)


async def test_whoever_was_rung_for_finds_the_record(store: Store, other: Store, silent: TopicRow) -> None:
    found: list[int] = []

    async def read() -> None:
        while sum(found) < 20:
            await store.rung(LONG)
            (topic,) = await store.topics()
            found.append(topic.records - sum(found))

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        for _ in range(20):
            await other.append(publications(silent, 1))
            await anyio.lowlevel.checkpoint()


async def test_a_bell_that_was_given_up_rings_again(store: Store, other: Store, silent: TopicRow) -> None:
    with anyio.move_on_after(0.01):
        await store.rung(LONG)
    async with anyio.create_task_group() as group:
        group.start_soon(store.rung, LONG)
        await anyio.wait_all_tasks_blocked()
        await other.append(publications(silent, 1))

"""The memory store is safe between threads, which is where a worker's heart beats."""

import threading

import anyio
import pytest
from anyio import to_thread

from streams.errors import InvalidConnection
from streams.stores.memory import MemoryStore
from streams.stores.rows import TopicRow
from tests.conformance.samples import ORDERS, member, publications, records_of


@pytest.fixture
async def orders(memory: MemoryStore) -> TopicRow:
    return await memory.ensure_topic(ORDERS, 4, "json")


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore()


async def test_threads_share_no_offset(memory: MemoryStore, orders: TopicRow) -> None:
    together = threading.Barrier(4)

    async def append() -> None:
        together.wait()
        handle = memory.sibling()
        for _ in range(200):
            await handle.append(publications(orders, 2))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(to_thread.run_sync, anyio.run, append)
    assert [record.offset for record in await records_of(memory, orders)] == list(range(1, 1601))


async def test_a_write_in_another_thread_is_found_at_the_next_poll(memory: MemoryStore) -> None:
    await memory.rung(0)
    heart = memory.sibling()

    async def register() -> None:
        await heart.register(member("ann"))

    started = anyio.current_time()
    async with anyio.create_task_group() as group:
        group.start_soon(memory.rung, 0.05)
        await to_thread.run_sync(anyio.run, register)
    assert anyio.current_time() - started < 5
    assert [row.member for row in await memory.members()] == ["ann"]


async def test_there_is_no_connection_that_could_carry_a_record(memory: MemoryStore) -> None:
    with pytest.raises(InvalidConnection, match="needs SQLite or PostgreSQL"):
        memory.within(object())


async def test_two_memory_stores_share_nothing(memory: MemoryStore, orders: TopicRow) -> None:
    assert await MemoryStore().topics() == []

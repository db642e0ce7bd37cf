"""SQLite's store runs on trio too; the conformance suite runs on asyncio alone, for the sake of time."""

import anyio
import pytest

from streams.stores.rows import Held, TopicRow
from streams.stores.sqlite.store import SqliteStore
from tests.conformance.samples import APPLIED, PAIR, payloads_of, publications, settlement, take_again


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


async def test_a_record_goes_its_way(store: SqliteStore, orders: TopicRow, held: Held) -> None:
    assert await store.append(publications(orders, 3)) == [1, 2, 3]
    assert await payloads_of(store, orders) == [b"1", b"2", b"3"]
    assert await store.commit([settlement(held.lease, 1, 2)]) == [APPLIED]
    assert await store.beat("ann", turned=True, stopping=False)
    again = await take_again(store, held)
    assert (again.position, again.lease.epoch, again.end) == (2, 2, 3)


async def test_a_write_of_another_handle_rings(store: SqliteStore, orders: TopicRow) -> None:
    other = store.sibling()
    await other.open(migrate=False, create=False)
    await store.rung(0)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(store.rung, 60)
            await anyio.wait_all_tasks_blocked()
            await other.append(publications(orders, 1))
    await other.close()


async def test_verbs_overlap(store: SqliteStore, orders: TopicRow, held: Held) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(store.append, publications(orders, 2))
            group.start_soon(store.view, [PAIR])
            group.start_soon(store.groups)
    assert len(await payloads_of(store, orders)) == 20

"""Several handles share one database and nothing else; each is opened, used from its own event loop, and closed."""

import anyio
import pytest
from anyio import to_thread

from streams.errors import InvalidConnection
from streams.stores.protocol import Store
from streams.stores.rows import Held, TopicRow
from tests.conformance.handles import Handles
from tests.conformance.samples import APPLIED, PAIR, cursor, payloads_of, publications, row_of, settlement


async def test_a_closed_handle_takes_nothing_with_it(store: Store, handles: Handles, orders: TopicRow) -> None:
    other = await handles.open()
    await other.append(publications(orders, 2))
    await other.close()
    assert await payloads_of(store, orders) == [b"1", b"2"]


async def test_a_handle_outlives_the_one_it_came_from(store: Store, handles: Handles, orders: TopicRow) -> None:
    other = await handles.open()
    await store.close()
    await other.append(publications(orders, 2))
    assert await payloads_of(other, orders) == [b"1", b"2"]


async def test_closing_twice_is_closing(store: Store) -> None:
    await store.close()
    await store.close()


async def test_a_closed_handle_can_be_opened_again(store: Store, orders: TopicRow) -> None:
    await store.append(publications(orders, 2))
    await store.close()
    await store.open(migrate=True, create=True)
    assert await store.topic(orders.name) == orders
    assert await payloads_of(store, orders) == [b"1", b"2"]


async def test_closing_goes_through_also_when_it_is_cancelled(store: Store, orders: TopicRow) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.close()


async def test_verbs_may_overlap_on_one_handle(store: Store, orders: TopicRow, held: Held) -> None:
    async def beat() -> None:
        assert await store.beat("ann", turned=True, stopping=False)

    async def commit() -> None:
        for number in range(1, 6):
            assert await store.commit([settlement(held.lease, number, number)]) == [APPLIED]

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(store.append, publications(orders, 1))
            group.start_soon(store.fetch, [cursor(orders)])
            group.start_soon(store.view, [PAIR])
            group.start_soon(store.groups)
            group.start_soon(beat)
        group.start_soon(commit)
    assert len(await payloads_of(store, orders)) == 5


async def test_a_handle_beats_from_a_thread_and_event_loop_of_its_own(
    store: Store, handles: Handles, held: Held
) -> None:
    heart = store.sibling(bound_seconds=1)
    handles.count += 1

    async def beats() -> list[bool]:
        await heart.open(migrate=False, create=False)
        try:
            return [await heart.beat("ann", turned=turned, stopping=False) for turned in (True, True, False)]
        finally:
            await heart.close()

    assert await to_thread.run_sync(lambda: anyio.run(beats)) == [True, True, True]
    assert not (await row_of(store, "ann")).turned


async def test_what_is_no_connection_to_the_database_carries_nothing(store: Store) -> None:
    for connection in (object(), None, "sqlite:///streams.db"):
        with pytest.raises(InvalidConnection):
            store.within(connection)

"""On a full disk nothing is half written; when there is room again, the same store goes on.

A bound on the file's pages stands in for the disk. It is a property of the connection, so it is set through the store's
own: as a statement of a settlement.
"""

import sqlite3
from collections.abc import Awaitable, Callable

import pytest

from streams.errors import StoreBusy, StoreUnavailable
from streams.stores.rows import Held, Statement, TopicRow
from streams.stores.sqlite.store import SqliteStore
from tests.conformance.samples import (
    APPLIED,
    letter,
    parked,
    payloads_of,
    publication,
    publications,
    settlement,
    status_of,
)

BIG = b"x" * 200_000

Bound = Callable[[int], Awaitable[None]]


@pytest.fixture
def bound(store: SqliteStore, held: Held, connection: sqlite3.Connection) -> Bound:
    """Let the file have so many pages more than it has now."""
    numbers = iter(range(1, 100))

    async def bound(more: int) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        statement = Statement(f"PRAGMA max_page_count = {pages + more}", ())
        assert await store.commit([settlement(held.lease, next(numbers), statements=(statement,))]) == [APPLIED]

    return bound


async def test_an_append_that_does_not_fit_is_unavailable_and_absent(
    store: SqliteStore, orders: TopicRow, bound: Bound
) -> None:
    await store.append(publications(orders, 2))
    await bound(10)
    with pytest.raises(StoreUnavailable, match=r"full; nothing was written") as caught:
        await store.append([publication(orders, 1), publication(orders, payload=BIG)])
    assert not isinstance(caught.value, StoreBusy)
    assert await payloads_of(store, orders, 0) == [b"1", b"2"]
    assert await payloads_of(store, orders, 1) == []
    assert [topic.records for topic in await store.topics()] == [2]


async def test_a_commit_that_does_not_fit_is_unavailable_and_absent(
    store: SqliteStore, orders: TopicRow, held: Held, bound: Bound
) -> None:
    await bound(10)
    big = settlement(
        held.lease,
        50,
        7,
        dead=(letter(held.lease, 1),),
        park=(parked(2),),
        publish=(publication(orders, 3), publication(orders, 3, BIG)),
    )
    with pytest.raises(StoreUnavailable, match="full"):
        await store.commit([big])
    status = await status_of(store)
    assert (status.position, status.parked) == (0, 0)
    assert await store.dead() == []
    assert await payloads_of(store, orders, 3) == []


async def test_what_still_fits_is_written_and_what_is_there_is_read(
    store: SqliteStore, orders: TopicRow, held: Held, bound: Bound
) -> None:
    await bound(10)
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await store.append([publication(orders, payload=BIG)])
    assert await store.append(publications(orders, 1)) == [1]
    assert await store.beat("ann", turned=True, stopping=False)
    assert await payloads_of(store, orders) == [b"1"]


async def test_with_room_again_the_store_goes_on(store: SqliteStore, orders: TopicRow, bound: Bound) -> None:
    await bound(10)
    with pytest.raises(StoreUnavailable):
        await store.append([publication(orders, payload=BIG)])
    await bound(1000)
    assert await store.append([publication(orders, payload=BIG)]) == [1]
    assert await payloads_of(store, orders) == [BIG]

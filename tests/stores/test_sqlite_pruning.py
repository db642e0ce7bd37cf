"""What a group has settled takes a bounded number of rows."""

import sqlite3

from streams.stores.rows import Held
from streams.stores.sqlite.store import SqliteStore
from tests.conformance.samples import settlement, take_again

COUNT = "SELECT count(*) FROM streams_settlements WHERE partition = 0"


async def test_a_whole_progress_removes_those_before_it(
    store: SqliteStore, held: Held, connection: sqlite3.Connection
) -> None:
    for number in range(1, 131):
        await store.commit([settlement(held.lease, number, number, whole=number % 64 == 1)])
        (rows,) = connection.execute(COUNT).fetchone()
        assert rows == (number - 1) % 64 + 1


async def test_a_whole_progress_of_a_new_epoch_removes_the_old_ones(
    store: SqliteStore, held: Held, connection: sqlite3.Connection
) -> None:
    for number in range(1, 11):
        await store.commit([settlement(held.lease, number, number)])
    again = await take_again(store, held)
    await store.commit([settlement(again.lease, 1, 11, whole=True)])
    assert connection.execute(COUNT).fetchone() == (1,)


async def test_a_settlement_that_is_in_already_removes_and_adds_nothing(
    store: SqliteStore, held: Held, connection: sqlite3.Connection
) -> None:
    first = settlement(held.lease, 1, 1)
    await store.commit([first, settlement(held.lease, 2, 2, whole=True), settlement(held.lease, 3, 3)])
    await store.commit([first])
    assert connection.execute(COUNT).fetchone() == (2,)


async def test_other_partitions_keep_theirs(store: SqliteStore, held: Held, connection: sqlite3.Connection) -> None:
    others = "SELECT count(*) FROM streams_settlements WHERE partition <> 0"
    before = connection.execute(others).fetchone()
    await store.commit([settlement(held.lease, 1, 1, whole=True)])
    assert connection.execute(others).fetchone() == before

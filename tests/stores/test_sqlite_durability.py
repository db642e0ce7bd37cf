"""How much a returned write survives is the user's choice, and the heart's writes need not survive a power cut."""

import sqlite3
from pathlib import Path

import pytest

from streams.stores.rows import Held, Statement
from streams.stores.sqlite.store import SqliteStore
from tests.conformance.clock import Clock
from tests.conformance.samples import APPLIED, settlement
from tests.stores.sqlite_file import store_on

FULL, NORMAL = 2, 1


async def synchronous(store: SqliteStore, held: Held, connection: sqlite3.Connection, number: int) -> int:
    """The setting of the connection that the store writes with, which a settlement can write down."""
    connection.execute("CREATE TABLE IF NOT EXISTS seen (value)")
    statement = Statement("INSERT INTO seen SELECT synchronous FROM pragma_synchronous", ())
    assert await store.commit([settlement(held.lease, number, statements=(statement,))]) == [APPLIED]
    return int(connection.execute("SELECT value FROM seen ORDER BY rowid DESC").fetchone()[0])


@pytest.mark.parametrize(
    ("query", "bound_seconds", "expected"),
    [
        ("", None, FULL),
        ("?synchronous=full", None, FULL),
        ("?synchronous=normal", None, NORMAL),
        ("", 1.0, NORMAL),
    ],
)
async def test_writes_are_as_durable_as_asked_for(
    path: Path,
    clock: Clock,
    held: Held,
    connection: sqlite3.Connection,
    query: str,
    bound_seconds: float | None,
    expected: int,
) -> None:
    store = store_on(path, query, clock=clock)
    sibling = store.sibling(bound_seconds=bound_seconds)
    await sibling.open(migrate=False, create=False)
    assert await synchronous(sibling, held, connection, 1) == expected
    await sibling.close()

"""What a handler hands to `ctx.execute` happens with its settlement, once, or not at all."""

import sqlite3
from typing import Any

import pytest

from streams.errors import StreamsError
from streams.stores.rows import Held, Settlement, Statement, TopicRow
from streams.stores.sqlite.store import SqliteStore
from tests.conformance.samples import (
    APPLIED,
    REFUSED,
    letter,
    parked,
    publications,
    records_of,
    settlement,
    status_of,
    take,
    take_again,
)

INSERT = "INSERT INTO invoices (number, customer) VALUES (?, ?)"


@pytest.fixture
def users(store: SqliteStore, connection: sqlite3.Connection) -> sqlite3.Connection:
    """The user's connection, with a table of theirs."""
    connection.execute("CREATE TABLE invoices (number INTEGER PRIMARY KEY, customer TEXT)")
    return connection


def invoices(users: sqlite3.Connection) -> list[Any]:
    return users.execute("SELECT number, customer FROM invoices ORDER BY number").fetchall()


def inserting(held: Held, *rows: tuple[int, object], number: int = 1, **effects: Any) -> Settlement:
    statements = tuple(Statement(INSERT, row) for row in rows)
    return settlement(held.lease, number, number, statements=statements, **effects)


async def test_statements_are_executed_in_their_order(
    store: SqliteStore, held: Held, users: sqlite3.Connection
) -> None:
    statements = (
        Statement(INSERT, (1, "Zoë")),
        Statement("UPDATE invoices SET customer = customer || ? WHERE number = ?", ("!", 1)),
        Statement("DELETE FROM invoices WHERE number = 2", ()),
        Statement(INSERT, (2, None)),
    )
    assert await store.commit([settlement(held.lease, 1, 1, statements=statements)]) == [APPLIED]
    assert invoices(users) == [(1, "Zoë!"), (2, None)]


async def test_settlements_execute_in_their_order(store: SqliteStore, held: Held, users: sqlite3.Connection) -> None:
    append = "INSERT INTO invoices (customer) VALUES (?)"
    many = [settlement(held.lease, number, statements=(Statement(append, (number,)),)) for number in range(1, 6)]
    await store.commit(many)
    assert invoices(users) == [(number, str(number)) for number in range(1, 6)]


async def test_statements_that_answer_with_rows_are_run_to_their_end(
    store: SqliteStore, held: Held, users: sqlite3.Connection
) -> None:
    many = "INSERT INTO invoices (customer) SELECT value FROM json_each('[1, 2, 3]') RETURNING number"
    statements = (Statement(many, ()), Statement("SELECT * FROM invoices", ()), Statement(many, ()))
    assert await store.commit([settlement(held.lease, 1, 1, statements=statements)]) == [APPLIED]
    assert len(invoices(users)) == 6
    assert (await status_of(store)).position == 1


async def test_a_settlement_tried_again_executes_nothing(
    store: SqliteStore, held: Held, users: sqlite3.Connection
) -> None:
    once = inserting(held, (1, "a"))
    assert await store.commit([once]) == [APPLIED]
    assert await store.commit([once]) == [APPLIED]
    assert await store.commit([once, once]) == [APPLIED, APPLIED]
    assert invoices(users) == [(1, "a")]


async def test_a_refused_settlement_executes_nothing(store: SqliteStore, held: Held, users: sqlite3.Connection) -> None:
    again = await take_again(store, held)
    assert await store.commit([inserting(held, (1, "old")), inserting(again, (2, "new"))]) == [
        REFUSED,
        APPLIED,
    ]
    assert invoices(users) == [(2, "new")]


@pytest.mark.parametrize(
    "bad",
    [
        Statement(INSERT, (1, "a second time")),
        Statement("INSERT INTO nothing VALUES (1)", ()),
        Statement("INSERT NONSENSE", ()),
        Statement(INSERT, (2,)),
        Statement(INSERT, (2, object())),
        Statement("SELECT 1; SELECT 2", ()),
    ],
    ids=["constraint", "no table", "no SQL", "too few arguments", "no SQL type", "two statements"],
)
async def test_a_statement_that_fails_undoes_the_whole_commit(
    store: SqliteStore, held: Held, orders: TopicRow, users: sqlite3.Connection, bad: Statement
) -> None:
    second = await take(store, "ann", 1)
    effects: dict[str, Any] = {
        "publish": tuple(publications(orders, 2, partition=3)),
        "dead": (letter(held.lease, 1),),
        "park": (parked(2),),
    }
    first = inserting(held, (1, "a"), **effects)
    failing = settlement(second.lease, 1, 1, statements=(Statement(INSERT, (7, "b")), bad))
    with pytest.raises(StreamsError):
        await store.commit([first, failing])
    assert invoices(users) == []
    (group,) = await store.groups()
    assert [(one.position, one.parked) for one in group.partitions] == [(0, 0)] * 4
    assert await store.dead() == []
    assert await records_of(store, orders, 3) == []
    assert await store.commit([first]) == [APPLIED]
    assert invoices(users) == [(1, "a")]


async def test_the_same_numbers_commit_after_a_failure(
    store: SqliteStore, held: Held, users: sqlite3.Connection
) -> None:
    await store.commit([inserting(held, (1, "a"))])
    with pytest.raises(StreamsError):
        await store.commit([inserting(held, (1, "b"), number=2)])
    assert await store.commit([inserting(held, (2, "b"), number=2)]) == [APPLIED]
    assert invoices(users) == [(1, "a"), (2, "b")]
    assert (await status_of(store)).position == 2

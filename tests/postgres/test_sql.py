"""Publishing from SQL: the functions that any language and any trigger can call."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from partition import SLOTS, partition_of, slot_of
from streams import Context, Streams
from streams.stores.postgres.store import PostgresStore
from streams.stores.postgres.url import parse
from tests.partition.vectors import PARTITIONS_OF_KEYS, SLOTS_OF_KEYS

TRIGGER = Path(__file__).parents[2] / "examples" / "changes_of_a_table.sql"


@pytest.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    store = PostgresStore(parse(database))
    await store.open(migrate=True, create=True)
    await store.ensure_topic("orders", 7, "json")
    await store.ensure_topic("blobs", 4, "bytes")
    await store.close()
    async with connected(database) as connection:
        yield connection


@asynccontextmanager
async def connected(database: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database)
    try:
        yield connection
    finally:
        await connection.close()


async def test_a_key_has_the_same_slot_in_sql_as_in_python(connection: asyncpg.Connection) -> None:
    for key, slot in SLOTS_OF_KEYS:
        assert await connection.fetchval("SELECT streams.slot_of($1)", key) == slot
    for key, partitions, partition in PARTITIONS_OF_KEYS:
        found = await connection.fetchval("SELECT streams.slot_of($1) * $2 / $3", key, partitions, SLOTS)
        assert found == partition
    keys = [chr(number) * (number % 7) for number in range(1, 3000, 7)]
    rows = await connection.fetch("SELECT streams.slot_of(key) FROM unnest($1::text[]) AS key", keys)
    assert [row[0] for row in rows] == [slot_of(key) for key in keys]


async def test_a_key_goes_to_the_same_partition_from_sql_as_from_python(connection: asyncpg.Connection) -> None:
    keys = [f"key-{number}" for number in range(300)] + ["", "ключ", "🦑"]
    await connection.fetchval("SELECT streams.publish_many('orders', $1, $2)", keys, [b"1"] * len(keys))
    rows = await connection.fetch("SELECT key, partition FROM streams.records")
    assert {row["key"]: row["partition"] for row in rows} == {key: partition_of(key, 7) for key in keys}


async def test_what_sql_publishes_reaches_a_handler(database: str, connection: asyncpg.Connection) -> None:
    app = Streams(database)
    app.topic("orders", dict[str, int], partitions=7)
    seen: list[tuple[str | None, dict[str, int], dict[str, str]]] = []

    @app.subscribe("orders", group="billing")
    async def handle(order: dict[str, int], ctx: Context) -> None:
        seen.append((ctx.key, order, dict(ctx.headers)))

    first = await connection.fetchval("""SELECT streams.publish('orders', 'key', '{"id": 1}', '{"of": "sql"}')""")
    second = await connection.fetchval("""SELECT streams.publish('orders', 'key', '{"id": 2}')""")
    await app.work(until_idle=True)
    assert (first, second) == (1, 2)
    assert seen == [("key", {"id": 1}, {"of": "sql"}), ("key", {"id": 2}, {})]


async def test_a_record_vanishes_with_the_transaction_of_its_publisher(connection: asyncpg.Connection) -> None:
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("SELECT streams.publish('orders', NULL, '1')")
    await transaction.rollback()
    assert await connection.fetchval("SELECT count(*) FROM streams.records") == 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("streams.publish('nothing', 'key', '1')", "there is no topic 'nothing'"),
        ("streams.publish('blobs', 'key', '1')", "are no JSON"),
        ("streams.publish('orders', repeat('é', 513), '1')", "more than 1,024 bytes"),
        ("streams.publish('orders', 'key', NULL)", "payload is NULL"),
        ("streams.publish('orders', 'key', '1', '[1]')", "headers are an object"),
        ("streams.publish('orders', 'key', '1', '{\"a\": 1}')", "headers are an object"),
        ("streams.publish('orders', 'key', '1', '{\"streams-x\": \"1\"}')", "headers are an object"),
        ("streams.publish_many('orders', ARRAY['a', 'b'], ARRAY['1'::bytea])", "2 keys, 1 payloads"),
    ],
)
async def test_what_cannot_be_published_is_refused_with_a_sentence(
    connection: asyncpg.Connection, call: str, said: str
) -> None:
    with pytest.raises(asyncpg.PostgresError, match=said):
        await connection.fetchval(f"SELECT {call}")
    assert await connection.fetchval("SELECT count(*) FROM streams.records") == 0


async def test_nothing_is_published_by_empty_arrays(connection: asyncpg.Connection) -> None:
    assert await connection.fetchval("SELECT streams.publish_many('orders', '{}', '{}')") == []


async def test_a_trigger_turns_the_changes_of_a_table_into_an_ordered_topic(
    database: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(TRIGGER.read_text())
    await connection.execute("INSERT INTO accounts SELECT n, 0 FROM generate_series(1, 50) AS n")
    await connection.execute("UPDATE accounts SET balance = id")
    await connection.execute("UPDATE accounts SET balance = balance + 1 WHERE id % 2 = 0")
    app = Streams(database)
    app.topic("account-changes", dict[str, int], partitions=4)
    seen: dict[str | None, list[int]] = {}

    @app.subscribe("account-changes", group="audit")
    async def handle(row: dict[str, int], ctx: Context) -> None:
        seen.setdefault(ctx.key, []).append(row["balance"])

    await app.work(until_idle=True)
    assert seen == {str(n): [0, n, n + 1] if n % 2 == 0 else [0, n] for n in range(1, 51)}

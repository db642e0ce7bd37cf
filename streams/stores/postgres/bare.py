"""PostgreSQL without us, for the benchmark: the same table, driver and durability, and nothing around them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self
from uuid import uuid4

import anyio
import asyncpg

from streams.stores.postgres.session import CLOSE_SECONDS
from streams.stores.postgres.session import connect as connect_to
from streams.stores.postgres.url import PostgresUrl, parse
from streams.stores.statements import in_schema
from streams.stores.yardstick import BareRow

CONNECT_SECONDS = 10.0
FLUSH_SECONDS = 1.2
"""A server process tells of what it has counted when it rests, but not twice in a second."""

_COLUMNS = '(topic_id, partition, "offset", key, payload, headers, published_at)'
_MANY = f"""
INSERT INTO streams.records {_COLUMNS}
SELECT * FROM unnest($1::integer[], $2::integer[], $3::bigint[], $4::text[], $5::bytea[], $6::bytea[], $7::bigint[])
"""
_ONE = f"INSERT INTO streams.records {_COLUMNS} VALUES ($1, $2, $3, $4, $5, $6, $7)"
_PARTITIONS = """
SELECT topic_id, partition FROM streams.partitions JOIN streams.topics USING (topic_id) WHERE name = $1
ORDER BY partition
"""
_READ = """
SELECT "offset", key, payload, headers, published_at FROM streams.records
WHERE topic_id = $1 AND partition = $2 AND "offset" > $3 ORDER BY "offset" LIMIT $4
"""
_TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
_LOGGED = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"
_CHANGED = "SELECT coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables WHERE schemaname = $1"
_SLEEPERS = "SELECT count(*) FROM streams.sleepers JOIN streams.members m USING (member) WHERE NOT m.dead"
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = $1"


class PostgresBare:
    """See `BareServer` for what each method promises."""

    writing = "INSERT … SELECT unnest"

    def __init__(self, url: PostgresUrl, schema: str, table: str, connection: asyncpg.Connection) -> None:
        self.server = f"PostgreSQL {connection.get_settings().server_version.split()[0]}"
        self.dsn = url.dsn
        self._url = url
        self._schema = schema
        self._table = table
        self._connection = connection
        self._lent: list[asyncpg.Connection] = []
        self._to_drop: list[str] = []
        self._many, self._one = (in_schema(sql, schema).replace(".records", f".{table}", 1) for sql in (_MANY, _ONE))

    @classmethod
    async def connect(cls, url: str, *, schema: str) -> Self:
        """One more connection, committing as durably as ours do."""
        return await cls._on(parse(url), schema, f"bare_{uuid4().hex[:8]}")

    @classmethod
    async def _on(cls, url: PostgresUrl, schema: str, table: str) -> Self:
        connection = await connect_to(url, seconds=CONNECT_SECONDS)
        await connection.execute("SET synchronous_commit = on")
        return cls(url, schema, table, connection)

    async def make_table(self) -> None:
        """With the key, the storage and the settings that the table of records has."""
        table = f'"{self._schema}".{self._table}'
        await self._connection.execute(f'CREATE TABLE {table} (LIKE "{self._schema}".records INCLUDING ALL)')
        self._to_drop.append(f"TABLE {table}")

    async def write(self, rows: Sequence[BareRow]) -> None:
        if len(rows) == 1:
            await self._connection.execute(self._one, *rows[0])
        else:
            await self._connection.execute(self._many, *map(list, zip(*rows, strict=True)))

    async def read(self, topic: str, limit: int) -> AsyncIterator[list[tuple[int, bytes]]]:
        places = await self._connection.fetch(in_schema(_PARTITIONS, self._schema), topic)
        statement = await self._connection.prepare(in_schema(_READ, self._schema))
        for topic_id, partition in places:
            after = 0
            while rows := await statement.fetch(topic_id, partition, after, limit):
                yield [(row[0], row[2]) for row in rows]
                after = rows[-1][0]

    async def transactions(self, seconds: float) -> int:
        """By the server's own count for this database; a statement outside of a transaction is one, also a read.

        What a server process has counted it tells of when it rests, a second later; so there may be a few more or less.
        """
        before = await self._connection.fetchval(_TRANSACTIONS)
        await anyio.sleep(seconds)
        after = await self._connection.fetchval(_TRANSACTIONS)
        return max(0, int(after - before) - 1)  # The first question was one, too.

    async def sibling(self) -> Self:
        return await self._on(self._url, self._schema, self._table)

    async def checkpoint(self) -> bool:
        try:
            await self._connection.execute("CHECKPOINT")
        except asyncpg.InsufficientPrivilegeError:
            return False
        return True

    async def logged_bytes(self) -> int:
        return int(await self._connection.fetchval(_LOGGED))

    async def changed_rows(self) -> int:
        await anyio.sleep(FLUSH_SECONDS)
        return int(await self._connection.fetchval(_CHANGED, self._schema))

    async def sleepers(self) -> int:
        return int(await self._connection.fetchval(in_schema(_SLEEPERS, self._schema)))

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[None]:
        holder = await self.sibling()
        try:
            async with holder._connection.transaction(isolation="repeatable_read"):
                await holder.sleepers()  # The snapshot is that of the first statement.
                yield
        finally:
            await holder.close()

    async def make_schema(self) -> str:
        name = f"{self._schema}_peer_{uuid4().hex[:8]}"
        await self._connection.execute(f'CREATE SCHEMA "{name}"')
        self._to_drop.append(f'SCHEMA "{name}"')
        return name

    async def analyze(self, schema: str) -> None:
        for (table,) in await self._connection.fetch(_TABLES, schema):
            await self._connection.execute(f'ANALYZE "{schema}"."{table}"')

    async def connection(self, schema: str) -> Any:
        connection = await connect_to(self._url, seconds=CONNECT_SECONDS)
        self._lent.append(connection)
        await connection.execute(f'SET search_path TO "{schema}"')
        return connection

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            for connection in self._lent:
                connection.terminate()
            for what in self._to_drop:
                await self._connection.execute(f"DROP {what} CASCADE", timeout=CONNECT_SECONDS)
            await self._connection.close(timeout=CLOSE_SECONDS)

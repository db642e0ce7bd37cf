"""SQLite without us, for the benchmark: the same table, statements and durability, and nothing around them."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from uuid import uuid4

import anyio

from streams.clock import boottime
from streams.stores.sqlite.schema import PACKAGE
from streams.stores.sqlite.url import connect, parse
from streams.stores.statements import statements
from streams.stores.yardstick import BareRow

BUSY_MILLISECONDS = 30_000
LOOK_SECONDS = 0.001


class SqliteBare:
    """See `Bare` for what each method promises. It blocks, which is the least that a call can cost."""

    server = f"SQLite {sqlite3.sqlite_version}"
    writing = "executemany"

    def __init__(self, url: str, *, schema: str) -> None:
        parsed = parse(url)
        self._records = f"{schema}_records"
        self._table = f"{schema}_bare_{uuid4().hex[:8]}"
        self._made = False
        self._statements = statements(PACKAGE, schema)
        self._insert = self._statements["append"].replace(self._records, self._table)
        self._connection = connect(parsed, create=False)
        self._connection.execute(f"PRAGMA synchronous = {parsed.synchronous}")
        self._connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")

    async def make_table(self) -> None:
        """Word for word as the table of records was made."""
        select = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?"
        (sql,) = self._connection.execute(select, (self._records,)).fetchone()
        self._connection.execute(sql.replace(self._records, self._table))
        self._made = True

    async def write(self, rows: Sequence[BareRow]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(self._insert, rows)
        self._connection.execute("COMMIT")

    async def read(self, topic: str, limit: int) -> AsyncIterator[list[tuple[int, bytes]]]:
        (topic_id, *_) = self._connection.execute(self._statements["topic"], {"name": topic}).fetchone()
        for partition, end in self._connection.execute(self._statements["ends"], (topic_id,)).fetchall():
            after = 0
            while after < end:
                place = topic_id, partition, after, end + 1, limit
                rows = self._connection.execute(self._statements["fetch"], place).fetchall()
                yield [(row[0], row[2]) for row in rows]
                after = rows[-1][0]

    async def transactions(self, seconds: float) -> int:
        """By the number that changes with every commit of another connection, looked at every millisecond."""
        count, version, ends = 0, self._version(), boottime() + seconds
        while boottime() < ends:
            if (seen := self._version()) != version:
                count, version = count + 1, seen
            await anyio.sleep(LOOK_SECONDS)
        return count

    def _version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    async def close(self) -> None:
        if self._made:
            self._connection.execute(f"DROP TABLE {self._table}")
        self._connection.close()

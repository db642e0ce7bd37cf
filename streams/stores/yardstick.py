"""What a database does without us: the yardstick that the benchmark holds beside each figure."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, Self

BareRow = tuple[int, int, int, str | None, bytes, bytes | None, int]
"""Topic's id, partition, offset, key, payload, headers, published_at: a record as a table holds it."""


class Bare(Protocol):
    """One connection of the driver's own, with the durability that the URL asks for."""

    server: str
    """What the database is, and its version."""

    writing: str
    """How it writes many rows at once, in a word or two."""

    async def make_table(self) -> None:
        """A table of the shape that records have, until this is closed."""

    async def write(self, rows: Sequence[BareRow]) -> None:
        """Rows into that table, in one transaction."""

    def read(self, topic: str, limit: int) -> AsyncIterator[list[tuple[int, bytes]]]:
        """Offsets and payloads of a topic's records, so many at a time, lowest first in each partition."""

    async def transactions(self, seconds: float) -> int:
        """How many transactions others make in so many seconds. Those that only read count where it can be seen."""

    async def close(self) -> None:
        """Drop the table, if it was made, and give the connection back."""


class BareServer(Bare, Protocol):
    """A connection to a database that many share."""

    dsn: str
    """The URL without what only we know."""

    async def sibling(self) -> Self:
        """Another connection, which writes to the same table. To be closed first."""

    async def checkpoint(self) -> bool:
        """Let the server write its pages, so that the log begins anew. False: this role may not."""

    async def logged_bytes(self) -> int:
        """How much the server has ever written to its log. Differences count."""

    async def changed_rows(self) -> int:
        """How many rows of our tables were ever updated or deleted, a second after the last change or later."""

    async def sleepers(self) -> int:
        """How many topics members wait for that are rung for."""

    def snapshot(self) -> AbstractAsyncContextManager[None]:
        """A connection that holds a repeatable-read snapshot, as a long report does, for as long as the block takes."""

    async def make_schema(self) -> str:
        """A schema of somebody else's, dropped with what is in it when this is closed; its name."""

    async def analyze(self, schema: str) -> None:
        """Let the server look at what is in the tables of that schema, as it would by itself before long."""

    async def connection(self, schema: str) -> Any:
        """The driver's connection itself, for somebody else's library: what it makes goes into that schema."""

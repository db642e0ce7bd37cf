"""What a database does without us: the yardstick that the benchmark holds beside each figure."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from streams.errors import SettingsError

BareRow = tuple[int, int, int, str | None, bytes, bytes | None, int]
"""Topic's id, partition, offset, key, payload, headers, published_at: a record as a table holds it."""


class Bare(Protocol):
    """One connection of the driver's own, with the durability that the URL asks for. It blocks."""

    server: str
    """What the database is, and its version."""

    def make_table(self) -> None:
        """A table of the shape that records have, until this is closed."""

    def write(self, rows: Sequence[BareRow]) -> None:
        """Rows into that table, in one transaction."""

    def read(self, topic: str, limit: int) -> Iterator[list[tuple[int, bytes]]]:
        """Offsets and payloads of a topic's records, so many at a time, lowest first in each partition."""

    def version(self) -> int:
        """A number that changes with every transaction that another connection has written."""

    def close(self) -> None:
        """Drop the table, if it was made, and give the connection back."""


def open_bare(url: str, *, schema: str) -> Bare:
    """On the database that a URL names. It has to have our tables.

    Raises:
        SettingsError: a database for which there is no such yardstick.
    """
    if not url.startswith("sqlite:"):
        raise SettingsError(f"{url.partition(':')[0]} cannot be measured yet; use sqlite:///file.db")
    from streams.stores.sqlite.bare import SqliteBare

    return SqliteBare(url, schema=schema)

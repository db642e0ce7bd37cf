"""A reader of partitions that goes on from where it was and hands its holes back, as a worker does."""

import time
from collections.abc import Sequence
from itertools import count
from typing import Protocol

from streams.stores.postgres.reading import Reader
from streams.stores.postgres.store import PostgresStore
from streams.stores.rows import Cursor, Fetched, Hole, Record, TopicRow


class Log(Protocol):
    """What can be read from."""

    async def fetch(self, cursors: Sequence[Cursor]) -> list[Fetched]: ...


def impatient(store: PostgresStore) -> Reader:
    """A reader for which a second has passed whenever it asks, so that each fetch with holes looks who holds them."""
    return Reader(store._reading, clock=count().__next__)


def hurried(store: PostgresStore) -> Reader:
    """A reader for which time passes ten times as fast."""
    return Reader(store._reading, clock=lambda: 10 * time.monotonic())


class Tail:
    """Reads one partition."""

    def __init__(self, log: Log, topic: TopicRow, partition: int = 0, *, in_order: bool = False) -> None:
        self.after = 0
        self.holes: tuple[Hole, ...] = ()
        self.records: list[Record] = []
        self._log = log
        self._topic = topic
        self._partition = partition
        self._in_order = in_order

    @property
    def missing(self) -> list[int]:
        """The offsets of its holes."""
        return [offset for hole in self.holes for offset in range(hole.low, hole.high + 1)]

    @property
    def keys(self) -> list[str | None]:
        """The keys of all that has come, in the order in which it came."""
        return [record.key for record in self.records]

    async def read(self, *, limit_records: int = 10_000, limit_bytes: int = 1 << 30) -> list[int]:
        """The offsets of what has come now."""
        cursor = Cursor(
            self._topic.id, self._partition, self.after, (), limit_records, limit_bytes, self.holes, self._in_order
        )
        ((records, self.after, self.holes),) = await self._log.fetch([cursor])
        self.records += records
        return [record.offset for record in records]

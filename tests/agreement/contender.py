"""The stores that are compared, each with two handles on an empty database of its own.

A further store is one more entry in `MAKERS`: it is to go by the clock that it is given.
"""

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from partition import Lease, Range
from streams.stores.memory import MemoryStore
from streams.stores.postgres.store import PostgresStore
from streams.stores.postgres.url import parse as parse_postgres
from streams.stores.protocol import Store
from streams.stores.rows import (
    Cursor,
    DeadLetter,
    GroupStatus,
    MemberRow,
    ParkedKey,
    Publication,
    Record,
    TopicStatus,
    View,
)
from streams.stores.sqlite.store import SqliteStore
from streams.stores.sqlite.url import parse
from tests.conformance.clock import Clock

MAKERS: dict[str, Callable[[Path, Clock], Store]] = {
    "memory": lambda folder, clock: MemoryStore(clock=clock),
    "sqlite": lambda folder, clock: SqliteStore(
        parse(f"sqlite:///{folder}/streams.db?synchronous=normal"), clock=clock
    ),
}


def on_postgres(url: str) -> Callable[[Path, Clock], Store]:
    """A maker of stores that each have a schema of their own in one database."""
    schemas = (f"example_{number}" for number in count())
    return lambda folder, clock: PostgresStore(parse_postgres(url), schema=next(schemas), clock=clock)


class Listing(NamedTuple):
    """All that the verbs which only look can tell of a database, in one order of rows for all stores."""

    topics: list[TopicStatus]
    groups: list[GroupStatus]
    parked: list[ParkedKey]
    dead: list[DeadLetter]
    members: list[MemberRow]
    view: View
    logs: dict[tuple[str, int], list[Record]]


class Contender:
    """One store. It is spoken to through its two handles in turn, so that neither may rely on what it remembers."""

    def __init__(self, name: str, store: Store) -> None:
        self.name = name
        self._handles = [store, store.sibling()]
        self._ids: dict[str, int] = {}
        self._generation = -1
        self._hands: object = None  # who may hold what, at the last look

    @property
    def store(self) -> Store:
        """The handle whose turn it is."""
        return self._handles[0]

    def turn(self) -> None:
        """Let the other handle be asked next."""
        self._handles.reverse()

    async def open(self) -> None:
        await self._handles[0].open(migrate=True, create=True)
        await self._handles[1].open(migrate=False, create=False)

    async def close(self) -> None:
        for handle in self._handles:
            await handle.close()

    async def reopen(self) -> None:
        """Close the handle whose turn it is, and open it again."""
        await self.store.close()
        await self.store.open(migrate=False, create=False)

    async def ensure_topic(self, topic: str, partitions: int) -> tuple[str, int, str]:
        """The topic's row without its id, which is the store's own."""
        row = await self.store.ensure_topic(topic, partitions, "json")
        self._ids[topic] = row.id
        return row.name, row.partitions, row.codec

    async def topic(self, topic: str) -> tuple[str, int, str] | None:
        """The topic's row without its id."""
        row = await self.store.topic(topic)
        assert row is None or row.id == self._ids[topic], f"{self.name}: {topic} has another id than when it was made"
        return None if row is None else (row.name, row.partitions, row.codec)

    def publication(self, topic: str, partition: int, key: str | None, payload: bytes) -> Publication:
        """A record to publish; also to a topic that nobody has made."""
        return Publication(self._ids.get(topic, 0), partition, key, payload, b"{}" if payload else None)

    def cursor(
        self,
        topic: str,
        partition: int,
        after: int = 0,
        skip: tuple[Range, ...] = (),
        limit_records: int = 1000,
        limit_bytes: int = 1 << 30,
    ) -> Cursor:
        return Cursor(self._ids[topic], partition, after, skip, limit_records, limit_bytes)

    async def view(self, pairs: list[tuple[str, str]]) -> View:
        """A view in one order of rows, and without the generation, which each store counts in its own steps."""
        view = await self.store.view(pairs)
        members = tuple(sorted(view.members, key=lambda row: row.member))
        leases = tuple(sorted(view.leases, key=_place))
        return msgspec.structs.replace(view, generation=0, members=members, leases=leases)

    def _follow(self, generation: int, view: View) -> None:
        """The generation never falls, and grows when who may hold what has changed."""
        assert generation >= self._generation, f"{self.name}: the generation fell"
        hands = view.leases, [msgspec.structs.replace(row, alive_until=0) for row in view.members]
        assert hands == self._hands or generation > self._generation, f"{self.name}: hands changed unnoticed"
        self._hands, self._generation = hands, generation

    async def listing(self) -> Listing:
        """All there is to see."""
        store = self.store
        topics = await store.topics()
        places = [(row.topic, partition) for row in topics for partition in range(row.partitions)]
        groups = await store.groups()
        fetched = await store.fetch([self.cursor(*place) for place in places])
        view = await self.view([(row.group, row.topic) for row in groups])
        self._follow(await store.generation(), view)
        return Listing(
            topics,
            groups,
            await store.parked(),
            await store.dead(),
            sorted(await store.members(), key=lambda row: row.member),
            view,
            {place: answer.records for place, answer in zip(places, fetched, strict=True)},
        )


def in_one_order(answers: list[Any]) -> list[Any]:
    """What was acquired, by place: stores may take leases in any order."""
    return sorted(answers, key=lambda held: _place(held.lease))


def _place(lease: Lease) -> tuple[str, str, int]:
    return lease.group, lease.topic, lease.partition

"""A memory store where transactions overlap: some offsets are not visible until a test says so, or never."""

from collections.abc import Sequence
from typing import Any

from streams.stores.memory import MemoryStore
from streams.stores.rows import Cursor, Fetched, Hole, Record
from tests.holes import Reading, read_past_holes

HOLDERS = frozenset({"5/77"})


class Hidden:
    """Offsets of every partition that are not visible, and those of them of which the store knows that none will be.

    `looks` is how often it looked who could fill a hole.
    """

    def __init__(self) -> None:
        self.offsets: set[int] = set()
        self.dead: set[int] = set()
        self.looks = 0


class HidingStore(MemoryStore):
    """Reads as the protocol says where there are holes. All handles of the database hide the same."""

    def __init__(self, *, hidden: Hidden | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.hidden = hidden or Hidden()

    def sibling(self, *, bound_seconds: float | None = None) -> "HidingStore":
        return HidingStore(state=self._state, hidden=self.hidden)

    async def fetch(self, cursors: Sequence[Cursor]) -> list[Fetched]:
        places = [(cursor.topic_id, cursor.partition) for cursor in cursors]
        found = await super().fetch([Cursor(*place, 0, (), 1 << 30, 1 << 30) for place in places])
        return [self._past_holes(one.records, cursor) for one, cursor in zip(found, cursors, strict=True)]

    def _past_holes(self, records: list[Record], cursor: Cursor) -> Fetched:
        visible = [record for record in records if record.offset not in self.hidden.offsets]
        reading = Reading(cursor.after, cursor.skip, cursor.holes, cursor.limit_records, cursor.in_order)
        rows, through, holes = read_past_holes(visible, self.hidden.dead, reading)
        asked = {offset: hole for hole in cursor.holes for offset in range(hole.low, hole.high + 1)}
        return Fetched([*rows], through, tuple(self._described(asked.get(one.low), *one) for one in holes))

    def _described(self, asked: Hole | None, low: int, high: int) -> Hole:
        """Looked at when it is asked for again, once: what was found comes back with the next cursor."""
        if asked is None:
            return Hole(low, high, None)
        if asked.holders is None:
            self.hidden.looks += 1
        return Hole(low, high, HOLDERS)

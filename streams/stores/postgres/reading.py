"""Reading a log whose numbers are given out before their records can be seen.

An offset that is missing below a visible one is a *hole*: its transaction is still open, or was rolled back. Readers
step over it and ask for it again with each fetch. It ends when nobody can fill it any more. Whoever was given an offset
holds the lock of a slot of that partition until the transaction ends, and gives it back only when what it committed can
be seen. So, in this order: a statement shows the hole; a later look at the locks finds holders; later looks strike off
those that are gone; and when none is left, the next statement that reaches past the hole and does not show the offset
proves that it never will be shown.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from partition import Range
from streams.stores.postgres.session import Session
from streams.stores.rows import Cursor, Fetched, Hole, Record

LOOK_SECONDS = 1.0
WAITING_LOOK_SECONDS = 0.05
"""While somebody waits at a hole it is looked at more often."""
MOST_HOLES = 1_000
"""With more open holes than these nothing is read beyond them, until some have ended."""

Row = Sequence[Any]


class Reader:
    """Fetches, and finds out when holes end. All that it remembers of a hole is in the hole."""

    def __init__(self, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self._session = session
        self._clock = clock
        self._looked_at = float("-inf")

    async def fetch(self, cursors: Sequence[Cursor]) -> list[Fetched]:
        """What lies above each cursor and in its holes, in one snapshot."""
        spans = [span for number, cursor in enumerate(cursors) for span in _spans(number, cursor)]
        places = [(-1 - number, cursor.topic_id, cursor.partition) for number, cursor in enumerate(cursors)]
        rows = await self._session.read("fetch", *_columns(spans, 7), *_columns(places, 3))
        found: list[list[Row]] = [[] for _ in cursors]
        ends = [0 for _ in cursors]
        for row in rows:
            if (number := row[0]) >= 0:
                found[number].append(row)
            else:
                ends[-1 - number] = row[1] or 0
        fetched = [_answer(*one) for one in zip(cursors, found, ends, strict=True)]
        if any(one.holes for one in fetched):
            fetched = await self._look(cursors, fetched)
        return fetched

    async def _look(self, cursors: Sequence[Cursor], fetched: list[Fetched]) -> list[Fetched]:
        """Who could still fill the holes, unless that was asked a moment ago."""
        waiting = any(one.holes and cursor.in_order for cursor, one in zip(cursors, fetched, strict=True))
        now = self._clock()
        if now - self._looked_at < (WAITING_LOOK_SECONDS if waiting else LOOK_SECONDS):
            return fetched
        self._looked_at = now
        holders: dict[tuple[int, int], set[str]] = {}
        prepared: dict[tuple[int, int], set[str]] = {}
        for topic_id, partition, holder, is_prepared in await self._session.read("holders"):
            of = prepared if is_prepared else holders
            of.setdefault((topic_id, partition), set()).add(holder)
        looked = []
        for cursor, one in zip(cursors, fetched, strict=True):
            place = cursor.topic_id, cursor.partition
            running, waits = frozenset(holders.get(place, ())), frozenset(prepared.get(place, ()))
            holes = tuple(
                hole._replace(holders=(running if hole.holders is None else hole.holders & running) | waits)
                for hole in one.holes
            )
            looked.append(one._replace(holes=holes))
        return looked


def _spans(number: int, cursor: Cursor) -> list[tuple[int, int, int, int, int, int, int]]:
    """What a cursor asks for, as open intervals, lowest first: its holes, then what lies above it between the skips."""
    if cursor.limit_records <= 0:
        return []
    intervals = [(hole.low - 1, hole.high + 1) for hole in cursor.holes if hole.low <= cursor.after][:MOST_HOLES]
    if len(intervals) < MOST_HOLES:
        low = cursor.after
        for skip in cursor.skip:
            if skip.low > low + 1:
                intervals.append((low, skip.low))
            low = max(low, skip.high)
        intervals.append((low, 1 << 62))
    limits = cursor.limit_records + 1, cursor.limit_bytes
    return [(number, cursor.topic_id, cursor.partition, low, high, *limits) for low, high in intervals]


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> list[list[int]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


def _answer(cursor: Cursor, rows: list[Row], end: int) -> Fetched:
    """Cut at the limits, to which the server gave one more; what is missing below what is left is a hole."""
    if cursor.limit_records <= 0:
        return Fetched([], cursor.after, cursor.holes)
    records = [Record(row[1], row[2], row[3], row[4], row[5]) for row in rows]
    kept = _within_limits(records, cursor)
    if len(kept) < len(records):
        reached = kept[-1].offset
    else:
        reached = cursor.after if len(cursor.holes) >= MOST_HOLES else max(end, cursor.after)
    through = max(reached, cursor.after)
    if not cursor.holes and through - cursor.after == len(kept):
        return Fetched(kept, through)
    holes = _open(cursor, [record.offset for record in kept], reached, through)
    if cursor.in_order and holes:
        first = holes[0]
        return Fetched([record for record in kept if record.offset < first.low], first.low - 1, (first,))
    return Fetched(kept, through, holes)


def _within_limits(records: list[Record], cursor: Cursor) -> list[Record]:
    room = cursor.limit_bytes
    for count, record in enumerate(records):
        room -= record.size
        if count >= cursor.limit_records or (count and room < 0):
            return records[:count]
    return records


def _open(cursor: Cursor, offsets: list[int], reached: int, through: int) -> tuple[Hole, ...]:
    """The holes at or below `through` after a statement that showed everything up to `reached`."""
    holes: list[Hole] = []
    waited_at: list[Hole] = []
    for hole in cursor.holes:
        if hole.low > cursor.after:
            waited_at.append(hole)
        elif hole.low > reached:
            holes.append(hole)
        elif hole.high > reached or not _proved(hole):
            holes += [hole._replace(low=low, high=high) for low, high in _gaps(hole.low, hole.high, offsets)]
    for gap in _gaps(cursor.after + 1, through, offsets, cursor.skip):
        holes += _known(gap, waited_at)
    return tuple(holes)


def _proved(hole: Hole) -> bool:
    """Whether nobody can fill it: what the next statement does not show is never shown."""
    return hole.holders is not None and not hole.holders


def _gaps(low: int, high: int, offsets: Sequence[int], skip: Sequence[Range] = ()) -> list[Range]:
    """The ranges between two offsets, both included, that hold none of the offsets and nothing to be skipped."""
    gaps = []
    for one in sorted([*(Range(offset, offset) for offset in offsets), *skip]):
        if one.low > high:
            break
        if one.low > low:
            gaps.append(Range(low, one.low - 1))
        low = max(low, one.high + 1)
    if low <= high:
        gaps.append(Range(low, high))
    return gaps


def _known(gap: Range, waited_at: Sequence[Hole]) -> list[Hole]:
    """A gap as holes: that part of it at which somebody has waited is known already, and may have ended."""
    found = []
    low, high = gap
    for hole in waited_at:
        if hole.high < low or hole.low > high:
            continue
        if hole.low > low:
            found.append(Hole(low, hole.low - 1, None))
        if not _proved(hole):
            found.append(hole._replace(low=max(low, hole.low), high=min(high, hole.high)))
        low = hole.high + 1
    if low <= high:
        found.append(Hole(low, high, None))
    return found

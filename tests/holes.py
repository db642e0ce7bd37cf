"""How a store reads past holes, as plainly as can be said: what windows and workers are tested against."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from partition.ranges import Hole, Range, merge


class Placed(Protocol):
    """Anything with an offset."""

    @property
    def offset(self) -> int: ...


R = TypeVar("R", bound=Placed)


class Reading(NamedTuple):
    """Where a reader is: what `Cursor` asks, without bytes."""

    after: int
    skip: Sequence[Range]
    holes: Sequence[Hole]
    limit: int
    in_order: bool = False


def offsets_of(ranges: Iterable[Hole]) -> set[int]:
    return {offset for one in ranges for offset in range(one.low, one.high + 1)}


def read_past_holes(
    visible: Sequence[R], dead: Collection[int], reading: Reading
) -> tuple[Sequence[R], int, list[Range]]:
    """Records, how far was read, and what is open then. Nobody can fill the `dead` offsets any more."""
    seen = {row.offset for row in visible}
    end = max(seen, default=0)
    passed = offsets_of(reading.skip) | set(dead)
    asked = offsets_of(reading.holes)
    wanted = [
        row for row in visible if row.offset not in passed and (row.offset > reading.after or row.offset in asked)
    ]
    if reading.in_order:
        missing = [offset for offset in range(reading.after + 1, end) if offset not in passed | seen]
        below = [row for row in wanted if not missing or row.offset < missing[0]]
        if missing and len(below) <= reading.limit:
            return below, missing[0] - 1, merge(missing)[:1]
        wanted, asked = below, set()
    rows = wanted[: reading.limit]
    through = max(reading.after, end if rows == wanted else rows[-1].offset)
    done = passed | {row.offset for row in rows}
    new = range(reading.after + 1, through + 1)
    places = [*([] if reading.in_order else (range(hole.low, hole.high + 1) for hole in reading.holes)), new]
    return rows, through, [left for place in places for left in merge(o for o in place if o not in done)]

"""The window of one partition: records read and not yet settled, in lanes by key.

A reader moves through a partition's offsets in order; handlers settle them out of order. The window keeps what lies
between: which records are unsettled, which lane may run next, and how far everything is settled.

::

    offsets   1 2 3 4 5 6 7 8 9 10 11 12 13 …
              s s s s . s s . s  s  -  -
                    ^               ^
                 position         cursor        s settled   . unsettled (in a lane)   - not read yet

*Position* is the highest offset up to which everything is settled; *ranges* are what is settled above it. Only
unsettled records are held: everything at or below the cursor that is not among them is settled or was never a record,
so the ranges are the complement of the unsettled offsets, and a slow record costs one gap however much settles above
it. What the last owner settled above the cursor is *inherited*; the reader skips it, and the cursor moves over it.

*Holes* are offsets below the cursor that the reader stepped over because they are not visible: a transaction that is
still open, or was rolled back. They are asked for again with every read. A hole is neither settled nor unsettled: the
position stays below the lowest, and no range includes one. What a hole held comes in below the cursor, and what is left
of it when the reader knows that nobody can fill it any more counts as settled.

A lane is the queue of one key. It is always in one state: *ready* (in the queue of the window), *taken* (its head is
with a runner) or *held* (its head waits for its next attempt). Only the head of a taken lane can be settled, so two
records of a key are never out at once.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from typing import Generic, Literal, Protocol, TypeVar

from partition.ranges import Hole, Range, covers, cut, merge, touches, union

Order = Literal["key", "partition", "none"]

WHOLE_EVERY = 64
"""A progress carries all ranges, not only the new ones, this often: it bounds what a successor has to read."""

_NO_OFFSET = 1 << 63
"""Above every offset."""


class Item(Protocol):
    """What a window holds: anything with an offset, a key and a size in bytes."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> str | None: ...
    @property
    def size(self) -> int: ...


T = TypeVar("T", bound=Item)

_offset = attrgetter("offset")


class LaneState(Enum):
    """Where a lane is: waiting for a runner, with a runner, or waiting for its head's next attempt."""

    READY = "ready"
    TAKEN = "taken"
    HELD = "held"


READY, TAKEN, HELD = LaneState  # On Python 3.11 a member looked up in its class costs ten times a global.


class Lane(Generic[T]):
    """The unsettled records of one key in offset order; the first is the head."""

    __slots__ = ("attempts", "items", "name", "since", "state")

    def __init__(self, name: str | None, item: T) -> None:
        self.name = name
        self.items = [item]  # Most lanes are short, and a short deque takes ten times the memory.
        self.state = READY
        self.attempts = 0  # failed attempts of the head,
        self.since = 0.0  # the first of them at this time

    @property
    def head(self) -> T:
        """The lowest unsettled record of the key."""
        return self.items[0]


@dataclass(frozen=True, slots=True)
class Progress:
    """What a window has settled since the last one: the new position, and ranges above it.

    `number` counts the progresses of a window from 1. `whole` says that `settled` is everything above the position and
    replaces what earlier progresses said; otherwise it adds to them. `records` is how many records it settles. What a
    hole has left when it ended is no record, so a progress that says only what was settled since would leave it out:
    the one that follows is whole.
    """

    number: int
    position: int
    settled: tuple[Range, ...]
    whole: bool
    records: int


class Window(Generic[T]):
    """Records of one partition between reading and settlement, bounded in number and bytes.

    `position` and `settled` are where the last owner got to. `order` decides what a lane is: a key (records without one
    are lanes of their own), the partition (its lane is named `""`), or each record. `barred` lanes are held until
    `unbar`: a handler of an earlier epoch still runs there. `holes` are open: to be asked for again with the next read.
    """

    def __init__(
        self,
        position: int,
        settled: Iterable[Range] = (),
        *,
        order: Order = "key",
        limit_records: int = 1000,
        limit_bytes: int = 4 << 20,
        barred: Iterable[str] = (),
    ) -> None:
        self.position = position
        self.cursor = position
        self.inherited = tuple(settled)
        self.holes: tuple[Hole, ...] = ()
        self.order = order
        self.limit_records = limit_records
        self.limit_bytes = limit_bytes
        self.ready: deque[Lane[T]] = deque()
        self._barred = set(barred)
        self._lanes: dict[str, Lane[T]] = {}
        self._unsettled: dict[int, int] = {}  # offset to size, ascending
        self._bytes = 0
        self._moved: list[int] = []  # settled since the last progress
        self._ended = False  # has a hole ended unfilled since then?
        self._committing = 0  # records of the progresses that are not in the store yet
        self._number = 0
        self._read_through(position)

    def __len__(self) -> int:
        return len(self._unsettled)

    @property
    def idle(self) -> bool:
        """Whether all that was read is settled and committed."""
        return not self._unsettled and not self.uncommitted

    @property
    def dirty(self) -> bool:
        """Whether there is progress to commit."""
        return bool(self._moved) or self._ended or self._settled_through() > self.position

    @property
    def uncommitted(self) -> int:
        """How many records are settled and not in the store yet."""
        return len(self._moved) + self._committing

    @property
    def held_bytes(self) -> int:
        """The size of all that is unsettled."""
        return self._bytes

    def room(self) -> tuple[int, int]:
        """How many records and bytes to read next; (0, 0) while the window is more than half full.

        One record is always admitted to an empty window, whatever its size. Uncommitted settlements count too, at a
        quarter, so that a store that cannot be written to stops the reader.
        """
        held = max(len(self._unsettled), self.uncommitted // 4)
        if held > self.limit_records // 2 or self._bytes > self.limit_bytes // 2:
            return 0, 0
        return self.limit_records - held, self.limit_bytes - self._bytes

    def admit(self, items: Sequence[T], through: int, holes: Sequence[Hole] = ()) -> None:
        """Take in what was read above the cursor and out of the holes, lowest first, and move the cursor to `through`.

        `holes` are those that are open now, ascending: what is left of the earlier ones, and new ones above the cursor.
        By partition they lie above `through`, since nothing is read beyond the first; else they lie below it. What lies
        at or below `through`, is not among `items`, not unsettled already and in no hole counts as settled: it was
        settled under an earlier epoch, or never was a record.
        """
        assert through >= self.cursor, "a reader never goes back"
        if holes or self.holes:
            self._admit_around_holes(items, through, holes)
        else:
            self._take_in(items, self.cursor, through)

    def _admit_around_holes(self, items: Sequence[T], through: int, holes: Sequence[Hole]) -> None:
        filling = items[: bisect_right(items, self.cursor, key=_offset)]
        self._check_holes(items, through, holes)
        self._check_filling(filling)
        self._ended |= any(
            high - low + 1 > bisect_right(items, high, key=_offset) - bisect_left(items, low, key=_offset)
            for low, high in cut(self.holes, holes)
        )
        self.holes = tuple(holes)
        self._take_in(items, filling[0].offset - 1 if filling else self.cursor, through)
        if filling:
            self._unsettled = dict(sorted(self._unsettled.items()))

    def _check_holes(self, items: Sequence[T], through: int, holes: Sequence[Hole]) -> None:
        """A hole is open: nothing that has ever counted as settled, and nothing that is read."""
        possible = self._unread()
        last = 0
        for low, high in ((hole.low, hole.high) for hole in holes):
            assert last < low <= high, "holes ascend"
            last = high
            assert covers(possible, low, high), "what was no hole, and was passed, is settled"
            assert not touches(self.inherited, low, high), "what a former owner settled is no hole"
            at = bisect_left(items, low, key=_offset)
            assert at == len(items) or items[at].offset > high, "a hole holds no record"
        if self.order == "partition":
            assert not holes or holes[0].low > through, "nothing is read beyond a hole"
        else:
            assert last <= through, "a hole lies below something that was read"

    def _check_filling(self, filling: Sequence[T]) -> None:
        """Records at or below the cursor come out of holes, and never before one of their key that was read."""
        possible = self._unread()
        for item in filling:
            assert covers(possible, item.offset, item.offset), "below the cursor, records come out of holes"
            lane = None if item.key is None else self._lanes.get(item.key)
            assert lane is None or lane.items[-1].offset < item.offset, "the records of a key come in offset order"

    def _unread(self) -> tuple[Range, ...]:
        """Where records may come from: the holes, and all above the cursor."""
        return union([*(Range(hole.low, hole.high) for hole in self.holes), Range(self.cursor + 1, _NO_OFFSET)], 0)

    def _take_in(self, items: Sequence[T], last: int, through: int) -> None:
        """Put records that follow on the offset `last` into their lanes, and move the cursor to `through`."""
        lanes, unsettled, ready, barred = self._lanes, self._unsettled, self.ready, self._barred
        by_key = self.order == "key"
        name = "" if self.order == "partition" else None
        total = 0
        for item in items:
            offset = item.offset
            assert last < offset <= through, "records are admitted in offset order"
            last = offset
            unsettled[offset] = size = item.size
            total += size
            if by_key:
                name = item.key
            if name is None:
                ready.append(Lane(None, item))
            elif (lane := lanes.get(name)) is not None:
                lane.items.append(item)
            else:
                lanes[name] = lane = Lane(name, item)
                if name in barred:
                    lane.state = HELD
                else:
                    ready.append(lane)
        self._bytes += total
        if through > self.cursor:
            self._read_through(through)

    def take(self) -> Lane[T] | None:
        """The next lane that may run, oldest first; its head is the caller's until it gives the lane back."""
        if not self.ready:
            return None
        lane = self.ready.popleft()
        lane.state = TAKEN
        return lane

    def settle(self, lane: Lane[T]) -> bool:
        """Settle the head of a taken lane; whether another record follows, which the caller then holds as its head."""
        assert lane.state is TAKEN, "only the head of a taken lane settles"
        items = lane.items
        offset = items.pop(0).offset
        self._bytes -= self._unsettled.pop(offset)
        self._moved.append(offset)
        lane.attempts = 0
        if items:
            return True
        if lane.name is not None:
            del self._lanes[lane.name]
        return False

    def give_back(self, lane: Lane[T]) -> None:
        """Put a taken or held lane that still has records at the end of the queue."""
        assert lane.state is not READY
        assert lane.items
        lane.state = READY
        self.ready.append(lane)

    def hold(self, lane: Lane[T]) -> None:
        """Keep a taken lane out of the queue until it is given back: its head waits for its next attempt."""
        assert lane.state is TAKEN
        assert lane.items
        lane.state = HELD

    def settle_held(self, lane: Lane[T]) -> T:
        """Settle the head of a held lane, which stays held until it is let go: nothing of its key runs meanwhile."""
        assert lane.state is HELD, "only a lane that is held waits for its settlement"
        item = lane.items.pop(0)
        self._bytes -= self._unsettled.pop(item.offset)
        self._moved.append(item.offset)
        lane.attempts = 0
        return item

    def settle_again(self, offset: int) -> None:
        """Say once more that a record is settled, whose settlement the store has withheld."""
        self._moved.append(offset)

    def let_go(self, lane: Lane[T]) -> None:
        """The settlement that a held lane waited for is in the store: its next record may run."""
        assert lane.state is HELD
        if lane.items:
            self.give_back(lane)
        elif lane.name is not None:
            del self._lanes[lane.name]

    def unbar(self, name: str) -> bool:
        """Open a lane that was barred from the start; whether it has records that may run now."""
        if name not in self._barred:
            return False
        self._barred.remove(name)
        lane = self._lanes.get(name)
        if lane is None:
            return False
        self.give_back(lane)
        return True

    def advance(self, *, anyway: bool = False) -> Progress | None:
        """What was settled since the last call, to be committed; None when nothing was, unless one is wanted anyway."""
        if not (anyway or self.dirty):
            return None
        self._number += 1
        self.position = self._settled_through()
        moved, self._moved = self._moved, []
        self._committing += len(moved)
        whole = self._number % WHOLE_EVERY == 1 or self._ended or not (self._unsettled or self.holes)
        self._ended = False
        ranges = self._ranges() if whole else merge(sorted(o for o in moved if o > self.position))
        return Progress(self._number, self.position, tuple(ranges), whole, len(moved))

    def committed(self, progress: Progress) -> None:
        """A progress is in the store."""
        self._committing -= progress.records
        assert self._committing >= 0

    def _settled_through(self) -> int:
        """Where the position is once what has been settled is in the store."""
        through = next(iter(self._unsettled), self.cursor + 1) - 1
        return min(through, self.holes[0].low - 1) if self.holes else through

    def _read_through(self, through: int) -> None:
        """Move the cursor, on over what is settled right behind it, and forget what it has passed."""
        self.inherited = union(self.inherited, through)
        if self.inherited and self.inherited[0].low == through + 1:
            through = self.inherited[0].high
            self.inherited = self.inherited[1:]
        self.cursor = through

    def _ranges(self) -> list[Range]:
        """Everything settled above the position: read, not unsettled and in no hole; and what was inherited unread."""
        ranges = []
        low = self.position + 1
        for offset in self._unsettled:
            if offset > low:
                ranges.append(Range(low, offset - 1))
            low = offset + 1
        if low <= self.cursor:
            ranges.append(Range(low, self.cursor))
        return [*(cut(ranges, self.holes) if self.holes else ranges), *self.inherited]

"""A window on trial: each step is done to it and, with plain sets, to an account of what must hold after it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from partition.ranges import Hole, Range
from partition.window import Lane, LaneState, Order, Progress, Window
from tests.holes import offsets_of

ABSENT = "-"
"""Instead of a key: an offset without a record."""

Name = str | int
"""A lane, by its key, or by the offset of its only record."""

Lanes = dict[Name, Lane["Row"]]


class Row(NamedTuple):
    """A record as far as a window looks at it."""

    offset: int
    key: str | None = None
    size: int = 1


class Log:
    """What a partition holds, from offset 1."""

    def __init__(self, keys: Iterable[str | None] = ()) -> None:
        self.rows: list[Row] = []
        self.end = 0
        for key in keys:
            self.append(key)

    def append(self, key: str | None, size: int = 1) -> None:
        self.end += 1
        if key != ABSENT:
            self.rows.append(Row(self.end, key, size))


class Stored:
    """Where a group is in a partition, folded from progresses as the stores do it."""

    def __init__(self, position: int = 0, above: Iterable[int] = ()) -> None:
        self.position = position
        self.above = frozenset(above)

    def apply(self, progress: Progress) -> None:
        assert progress.position >= self.position, "a position never goes back"
        self.position = progress.position
        earlier = set() if progress.whole else self.above
        self.above = frozenset(o for o in offsets_of(progress.settled) | earlier if o > self.position)

    def settles(self, offset: int) -> bool:
        return offset <= self.position or offset in self.above

    def ranges(self) -> tuple[Range, ...]:
        return tuple(Range(low, high) for low, high in runs_of(self.above))


class Trial:
    """One owner's time with a partition: its window, what is stored of it, and how things ought to be."""

    def __init__(
        self,
        log: Log,
        stored: Stored,
        *,
        order: Order = "key",
        barred: Iterable[str] = (),
        limit_records: int = 1000,
        limit_bytes: int = 1000,
    ) -> None:
        self.log, self.stored, self.order = log, stored, order
        self.start = self.through = stored.position
        self.inherited = stored.above
        self.open: set[int] = set()  # in holes
        self.ended = False  # has a hole ended without a record since the last progress?
        self.barred = sorted(barred)
        self.limit_records, self.limit_bytes = limit_records, limit_bytes
        self.window: Window[Row] = Window(
            stored.position,
            stored.ranges(),
            order=order,
            limit_records=limit_records,
            limit_bytes=limit_bytes,
            barred=self.barred,
        )
        self.lanes: dict[Name, list[Row]] = {}
        self.queue: list[Name] = []
        self.out: Lanes = {}
        self.held: Lanes = {}
        self.settled = {row.offset for row in log.rows if stored.settles(row.offset)}
        self.moved: set[int] = set()  # settled since the last progress
        self.progresses: list[tuple[Progress, set[int]]] = []  # not stored yet, with what each settles
        self.check()

    # How things ought to be.

    def name_of(self, row: Row) -> Name:
        if self.order == "partition":
            return ""
        return row.offset if self.order == "none" or row.key is None else row.key

    def unread(self) -> list[Row]:
        above = (row for row in self.log.rows if row.offset > self.through or row.offset in self.open)
        return [row for row in above if row.offset not in self.inherited]

    def read(self, count: int) -> tuple[Sequence[Row], int, Sequence[Hole]]:
        """What the next read gives: rows, how far it got, and the holes that are open then."""
        unread = self.unread()
        return unread[:count], unread[count - 1].offset if count <= len(unread) else self.log.end, []

    def position(self) -> int:
        """The highest offset up to which everything is settled, found by counting."""
        unsettled = self.open.union(row.offset for rows in self.lanes.values() for row in rows)
        position = self.start
        while (after := position + 1) not in unsettled and (after <= self.through or after in self.inherited):
            position = after
        return position

    def settled_above(self) -> set[int]:
        """What lies above the position and is neither unsettled, nor in a hole, nor unread."""
        unsettled = self.open.union(row.offset for rows in self.lanes.values() for row in rows)
        return (
            {*range(self.position() + 1, self.through + 1), *self.inherited} - unsettled - {*range(self.position() + 1)}
        )

    def room(self, records: int, octets: int, uncommitted: int) -> tuple[int, int]:
        held = max(records, uncommitted // 4)
        if held > self.limit_records // 2 or octets > self.limit_bytes // 2:
            return 0, 0
        return self.limit_records - held, self.limit_bytes - octets

    def check(self) -> None:
        window = self.window
        sizes = [row.size for rows in self.lanes.values() for row in rows]
        uncommitted = len(self.moved) + sum(len(settled) for _, settled in self.progresses)
        assert len(window) == len(sizes)
        assert window.uncommitted == uncommitted
        assert window.idle == (not sizes and not uncommitted)
        assert window.dirty == (bool(self.moved) or self.ended or self.position() > window.position)
        assert offsets_of(window.holes) == self.open
        assert window.held_bytes == sum(sizes)
        assert window.room() == self.room(len(sizes), sum(sizes), uncommitted)
        assert len(window.ready) == len(self.queue)
        assert {lane.state for lane in window.ready} <= {LaneState.READY}
        assert {lane.state for lane in self.out.values()} <= {LaneState.TAKEN}
        assert {lane.state for lane in self.held.values()} <= {LaneState.HELD}
        ahead = offsets_of(window.inherited)
        assert ahead == {offset for offset in self.inherited if offset > window.cursor}
        assert window.cursor + 1 not in ahead, "the cursor moves over what is settled"

    def check_head(self, name: Name) -> None:
        """The head of a lane that is out is the lowest record of its key that is not settled."""
        head = self.out[name].head
        assert head.offset not in self.settled
        earlier = (row for row in self.log.rows[: head.offset] if row.offset < head.offset)
        assert all(row.offset in self.settled for row in earlier if self.name_of(row) == name)
        assert list(self.out[name].items) == self.lanes[name]

    # Steps.

    def admit(self, count: int) -> None:
        """Read so many records, or all there are and on to the end when there is room for more."""
        rows, through, holes = self.read(count)
        self.window.admit(rows, through, holes)
        left = self.open - {row.offset for row in rows}
        self.through, self.open = through, offsets_of(holes)
        self.ended = self.ended or not left <= self.open
        for row in rows:
            name = self.name_of(row)
            if name not in self.lanes and name not in self.barred:
                self.queue.append(name)
            self.lanes.setdefault(name, []).append(row)
        self.check()

    def take(self) -> None:
        lane = self.window.take()
        if lane is None:
            assert not self.queue
            return
        name = self.name_of(lane.head)
        assert name not in self.out, "one record of a key at a time"
        assert name not in self.held
        assert name not in self.barred
        assert name == self.queue.pop(0), "the oldest lane first"
        self.out = in_order(self.out | {name: lane})
        self.check_head(name)
        self.check()

    def settle(self, name: Name) -> None:
        lane = self.out[name]
        row = self.lanes[name].pop(0)
        self.settled.add(row.offset)
        self.moved.add(row.offset)
        lane.attempts = 3
        assert self.window.settle(lane) == bool(self.lanes[name])
        assert lane.attempts == 0
        if self.lanes[name]:
            self.check_head(name)
        else:
            del self.lanes[name], self.out[name]
        self.check()

    def give_back(self, name: Name) -> None:
        lane = self.out.pop(name, None) or self.held.pop(name)
        self.window.give_back(lane)
        self.queue.append(name)
        self.check()

    def hold(self, name: Name) -> None:
        lane = self.out.pop(name)
        self.window.hold(lane)
        self.held = in_order(self.held | {name: lane})
        self.check()

    def unbar(self, name: str) -> None:
        self.barred.remove(name)
        assert self.window.unbar(name) == (name in self.lanes)
        if name in self.lanes:
            self.queue.append(name)
        self.check()

    def advance(self) -> None:
        due = self.window.dirty
        progress = self.window.advance()
        assert (progress is not None) == due
        if progress is not None:
            assert progress.records == len(self.moved)
            assert progress.position == self.window.position == self.position()
            offsets = offsets_of(progress.settled)
            assert progress.settled == tuple(runs_of(offsets)), "each range is as long as can be"
            assert all(offset > progress.position + 1 for offset in offsets)
            assert offsets <= self.settled_above()
            assert offsets == self.settled_above() or not progress.whole
            assert progress.whole or not self.ended
            self.progresses.append((progress, self.moved))
            self.moved, self.ended = set(), False
        self.check()

    def commit(self) -> None:
        """The oldest progress that is not stored yet gets there."""
        progress, _ = self.progresses.pop(0)
        self.stored.apply(progress)
        self.window.committed(progress)
        expected = self.settled - self.moved - {offset for _, settled in self.progresses for offset in settled}
        assert {row.offset for row in self.log.rows if self.stored.settles(row.offset)} == expected
        assert all(offset <= self.log.end for offset in self.stored.above)
        self.check()

    def save(self) -> None:
        self.advance()
        self.commit()

    # The end of it.

    def finish(self) -> None:
        """Run and store whatever is left."""
        for key in [*self.barred]:
            self.unbar(key)
        for name in [*self.out, *self.held]:
            self.give_back(name)
        while self.queue or self.open or self.through < self.log.end:
            if self.queue:
                self.take()
            else:
                self.admit(2)
            while self.out:
                self.settle(next(iter(self.out)))
        while self.window.dirty:
            self.advance()
        while self.progresses:
            self.commit()
        assert self.window.idle
        assert self.settled == {row.offset for row in self.log.rows}
        assert self.stored.position == self.log.end
        assert not self.stored.above

    def successor(self, *, barred: Iterable[str] = ()) -> Self:
        """Whoever comes next if this one ends here: all it knows is what is stored."""
        stored = Stored(self.stored.position, self.stored.above)
        return type(self)(
            self.log,
            stored,
            order=self.order,
            barred=barred,
            limit_records=self.limit_records,
            limit_bytes=self.limit_bytes,
        )


def window_of(*keys: str | None, **options: object) -> Window[Row]:
    """A window from the start of a partition that has read records under these keys."""
    window: Window[Row] = Window(0, **options)  # type: ignore[arg-type]
    read_on(window, *keys)
    return window


def read_on(window: Window[Row], *keys: str | None) -> None:
    """Read on by records under these keys."""
    rows = [Row(offset, key) for offset, key in enumerate(keys, start=window.cursor + 1)]
    window.admit(rows, window.cursor + len(rows))


def settle_next(window: Window[Row], count: int = 1) -> None:
    """Settle the only records of the next lanes."""
    for _ in range(count):
        lane = window.take()
        assert lane is not None
        assert not window.settle(lane)


def runs_of(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Offsets as ranges, found by looking for both ends of each."""
    known = set(offsets)
    lows = sorted(offset for offset in known if offset - 1 not in known)
    highs = sorted(offset for offset in known if offset + 1 not in known)
    return list(zip(lows, highs, strict=True))


def in_order(lanes: Lanes) -> Lanes:
    """In an order that does not tell how it came about."""
    return dict(sorted(lanes.items(), key=str))

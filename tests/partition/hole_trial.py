"""A window on trial where transactions overlap: what is written is visible, in any order, as they end."""

from collections.abc import Collection, Iterator, Sequence

from partition.ranges import Hole
from tests.holes import Reading, read_past_holes
from tests.partition.window_trial import Log, Name, Row, Trial


class OverlappingLog(Log):
    """Offsets are handed out as rows are written, and rows are visible once their transaction has committed.

    Who writes under a key holds it until the end of its transaction, as in a store.
    """

    def __init__(self) -> None:
        super().__init__()
        self.written = 0
        self.transactions: dict[int, list[Row]] = {}
        self.rolled_back: set[int] = set()
        self.dead: set[int] = set()  # those of which the store has found out

    def may_write(self, transaction: int, key: str | None) -> bool:
        others = (rows for number, rows in self.transactions.items() if number != transaction)
        return key is None or all(row.key != key for rows in others for row in rows)

    def write(self, transaction: int, key: str | None) -> None:
        assert self.may_write(transaction, key)
        self.written += 1
        self.transactions.setdefault(transaction, []).append(Row(self.written, key))

    def end_of(self, transaction: int, lost: Collection[int]) -> None:
        """Commit what a transaction wrote, but for the offsets that are lost: it, or a part of it, was rolled back."""
        rows = self.transactions.pop(transaction)
        self.rows = sorted([*self.rows, *(row for row in rows if row.offset not in lost)], key=lambda row: row.offset)
        self.rolled_back |= {row.offset for row in rows} & set(lost)
        self.end = max((row.offset for row in self.rows), default=0)

    def look(self) -> None:
        """Find out who can fill nothing any more."""
        self.dead |= self.rolled_back

    def undecided(self) -> Iterator[Row]:
        return (row for rows in self.transactions.values() for row in rows)


class HoleTrial(Trial):
    """One owner's time with a partition that has holes."""

    log: OverlappingLog

    def read(self, count: int) -> tuple[Sequence[Row], int, Sequence[Hole]]:
        window = self.window
        in_order = self.order == "partition"
        reading = Reading(window.cursor, window.inherited, window.holes, count, in_order)
        rows, through, holes = read_past_holes(self.log.rows, self.log.dead, reading)
        assert rows == self.unread()[: len(rows)], "every visible row, once"
        assert in_order or len(rows) == min(count, len(self.unread()))
        return rows, through, holes

    def check(self) -> None:
        super().check()
        below = self.window.position
        assert all(offset > below for offset in self.open), "a position never passes an open hole"
        for row in self.log.undecided():
            assert row.offset > self.stored.position
            assert row.offset not in self.stored.above, "what may still be filled is not settled"

    def check_head(self, name: Name) -> None:
        super().check_head(name)
        head = self.out[name].head
        same = (row for row in self.log.undecided() if self.name_of(row) == name)
        assert all(row.offset > head.offset for row in same), "nothing earlier of its key may still come"

    def write(self, transaction: int, key: str | None) -> None:
        self.log.write(transaction, key)
        self.check()

    def end(self, transaction: int, lost: Collection[int]) -> None:
        self.log.end_of(transaction, lost)
        self.check()

    def look(self) -> None:
        self.log.look()
        self.check()

    def finish(self) -> None:
        for transaction in [*self.log.transactions]:
            self.log.end_of(transaction, ())
        self.log.look()
        super().finish()

    def would_read(self) -> bool:
        """Whether a read would change anything."""
        window = self.window
        reading = Reading(window.cursor, window.inherited, window.holes, 1, self.order == "partition")
        rows, through, holes = read_past_holes(self.log.rows, self.log.dead, reading)
        return bool(rows) or through > window.cursor or [*holes] != [*window.holes]

"""The plain values that cross the store protocol.

Times are integers: microseconds since the epoch by the database's clock. Sizes are bytes.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from partition import Lease, Progress, Range, union

RECORD_OVERHEAD = 256
"""What a record in memory takes beside its payload, roughly, in bytes."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record as a reader of a partition gets it."""

    offset: int
    key: str | None
    payload: bytes
    headers: bytes | None
    published_at: int

    @property
    def size(self) -> int:
        """Bytes it takes in memory, roughly."""
        return len(self.payload) + RECORD_OVERHEAD


class Publication(msgspec.Struct, frozen=True, gc=False):
    """One record to append; it gets its offset in the write.

    Not a tuple: the garbage collector would go through the thousands that a batch holds, at the cost of encoding them.
    """

    topic_id: int
    partition: int
    key: str | None
    payload: bytes
    headers: bytes | None


class TopicRow(msgspec.Struct, frozen=True):
    """A topic as the database has it: the truth about its partitions and codec."""

    id: int
    name: str
    partitions: int
    codec: str


class Hole(NamedTuple):
    """Offsets from low to high, none of them visible, below one that is: a transaction still open, or rolled back.

    `holders` are those who could still fill it, as far as the store knows; None: it has not looked yet. Only the store
    reads them; they come back to it with the next cursor.
    """

    low: int
    high: int
    holders: frozenset[str] | None


class Cursor(NamedTuple):
    """Where to read on in a partition: above `after`, without the `skip`ped ranges, bounded in records and bytes.

    The ranges ascend; they may reach below `after` and beyond the end. `holes` are what the last answer left open, and
    are asked for again: ascending, all at or below `after`. With `in_order` nothing is read beyond an open hole, for
    `order="partition"`; then there is one at most, and it lies above `after`.
    """

    topic_id: int
    partition: int
    after: int
    skip: tuple[Range, ...]
    limit_records: int
    limit_bytes: int
    holes: tuple[Hole, ...] = ()
    in_order: bool = False


class Fetched(NamedTuple):
    """Records lowest first; nothing unsettled at or below `through` is missing from them, but for what `holes` cover.

    Those out of the cursor's holes lie at or below its `after`. `holes` are still open, or not read to their end
    because a limit was reached: ascending, disjoint, at or below `through`. When the cursor is `in_order` the records
    end below the first open hole, `through` is the offset before it, and it alone is in `holes`.
    """

    records: list[Record]
    through: int
    holes: tuple[Hole, ...] = ()


class MemberRow(msgspec.Struct, frozen=True):
    """One worker process. `serves` holds its (group, topic) pairs; `turned`: its main loop ran since the last beat."""

    member: str
    host: str
    pid: int
    serves: tuple[tuple[str, str], ...]
    lease_micros: int
    alive_until: int = 0
    turned: bool = True
    stopping: bool = False
    dead: bool = False


class View(msgspec.Struct, frozen=True):
    """Members and leases in one snapshot. `generation` grows whenever who may hold what has changed."""

    now: int
    generation: int
    members: tuple[MemberRow, ...]
    leases: tuple[Lease, ...]


class Parked(msgspec.Struct, frozen=True):
    """What is durable of an unsettled record whose handler has failed, or wants to be called again.

    It is due again, and has failed since, at these times of the database's clock, in microseconds.
    """

    offset: int
    key: str | None
    attempts: int
    due_at: int
    since: int
    error: str


class Held(msgspec.Struct, frozen=True):
    """A lease just acquired, and where the last owner got to: read after the epoch was raised.

    `parked` are the rows of unsettled records, by offset; `now` is the database's clock at that time.
    """

    lease: Lease
    position: int
    settled: tuple[Range, ...]
    end: int
    parked: tuple[Parked, ...] = ()
    now: int = 0


class DeadLetter(msgspec.Struct, frozen=True):
    """A record that its group gave up on, copied whole. `cause` is `exhausted`, `undecodable` or `rejected`."""

    group: str
    topic: str
    partition: int
    offset: int
    key: str | None
    payload: bytes
    headers: bytes | None
    published_at: int
    attempts: int
    cause: str
    error: str
    traceback: str
    died_at: int = 0


class DeadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters are meant: those to which all applies that is given.

    `error` is a part of the text of theirs; `since` is when they died at the earliest, in microseconds since the epoch.
    """

    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    key: str | None = None
    error: str | None = None
    since: int | None = None

    def takes(self, letter: DeadLetter) -> bool:
        """Whether a dead letter is meant."""
        for name in ("group", "topic", "partition", "offset", "key"):
            if (wanted := getattr(self, name)) is not None and getattr(letter, name) != wanted:
                return False
        return (self.error or "") in letter.error and letter.died_at >= (self.since or 0)


EVERY_LETTER = DeadFilter()


class Statement(NamedTuple):
    """A statement of the user's that a settlement carries."""

    sql: str
    args: tuple[object, ...]


class Settlement(msgspec.Struct, frozen=True):
    """All that one partition commits at once, under its lease: it happens whole, once, or not at all.

    `causes` are the offsets of the records whose handlers published what is in `publish`, one for each. With them, a
    store may withhold a record whose publications find the place of their key taken.
    """

    lease: Lease
    progress: Progress
    publish: tuple[Publication, ...] = ()
    causes: tuple[int, ...] = ()
    dead: tuple[DeadLetter, ...] = ()
    park: tuple[Parked, ...] = ()
    unpark: tuple[int, ...] = ()
    statements: tuple[Statement, ...] = ()


class Verdict(NamedTuple):
    """What became of a settlement. `withheld`: offsets that stayed unsettled, and nothing of theirs was published."""

    applied: bool
    withheld: tuple[int, ...] = ()


class ParkedKey(msgspec.Struct, frozen=True):
    """A key that a group cannot go on with, since its lowest unsettled record has failed.

    It has failed since, and is due again, at these times of the database's clock, in microseconds. `followers` are the
    records of the key that are parked behind it.
    """

    group: str
    topic: str
    partition: int
    offset: int
    key: str | None
    attempts: int
    since: int
    until: int
    followers: int
    error: str


def parked_keys(rows: Iterable[tuple[str, str, int, Parked]]) -> list[ParkedKey]:
    """The keys of parked rows, from (group, topic, partition, row) by offset in each partition.

    A record without a key stands alone.
    """
    found: dict[tuple[str, str, int, str | int], ParkedKey] = {}
    for group, topic, partition, row in rows:
        place = group, topic, partition, row.offset if row.key is None else row.key
        if (head := found.get(place)) is not None:
            found[place] = msgspec.structs.replace(head, followers=head.followers + 1)
        else:
            found[place] = ParkedKey(*place[:3], row.offset, row.key, row.attempts, row.since, row.due_at, 0, row.error)
    return list(found.values())


class TopicStatus(msgspec.Struct, frozen=True):
    """A topic as `streams topics` shows it; `records` counts those in the log."""

    topic: str
    partitions: int
    codec: str
    records: int


class PartitionStatus(msgspec.Struct, frozen=True):
    """Where a group is in one partition. `owner` is None unless a living member holds the lease."""

    partition: int
    owner: str | None
    epoch: int
    position: int
    end: int
    lag: int
    parked: int


def lag(position: int, end: int, settled: Iterable[Range], parked: Iterable[int]) -> int:
    """Offsets above the position up to the end, less those settled or parked above it. Never negative."""
    ahead = union([*settled, *(Range(offset, offset) for offset in parked)], position)
    return max(0, end - position - sum(high - low + 1 for low, high in ahead))


class GroupStatus(msgspec.Struct, frozen=True):
    """A group of a topic with all its partitions, from one snapshot."""

    group: str
    topic: str
    lag: int
    parked: int
    partitions: tuple[PartitionStatus, ...]

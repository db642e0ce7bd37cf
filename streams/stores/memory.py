"""The memory store: the reference model of the protocol, and the users' test double.

One process, nothing durable. A lock makes each verb a transaction, also between the event loops of a worker and its
heart.
"""

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import anyio
import msgspec

from partition import Beat, Lease, Progress, Range, union
from streams.errors import InvalidConnection, StoreUnavailable, StreamsError, UnknownTopic
from streams.stores.protocol import InTransaction
from streams.stores.rows import (
    EVERY_LETTER,
    Cursor,
    DeadFilter,
    DeadLetter,
    Fetched,
    GroupStatus,
    Held,
    MemberRow,
    Parked,
    ParkedKey,
    PartitionStatus,
    Publication,
    Record,
    Settlement,
    TopicRow,
    TopicStatus,
    Verdict,
    View,
    lag,
    parked_keys,
)


def wall_micros() -> int:
    """Microseconds since the epoch by this machine's clock."""
    return time.time_ns() // 1000


class _GroupPartition:
    """One group's state in one partition."""

    def __init__(self, group: str, topic: str, partition: int, position: int) -> None:
        self.lease = Lease(group, topic, partition, None, 0)
        self.key = (0, 0)  # (epoch, number) of the last settlement
        self.position = position
        self.settled: tuple[Range, ...] = ()
        self.parked: dict[int, Parked] = {}

    def apply(self, epoch: int, progress: Progress) -> None:
        self.key = (epoch, progress.number)
        self.position = progress.position
        earlier = () if progress.whole else self.settled
        self.settled = union([*earlier, *progress.settled], self.position)

    def status(self, end: int, live: set[str]) -> PartitionStatus:
        return PartitionStatus(
            partition=self.lease.partition,
            owner=self.lease.member if self.lease.member in live else None,
            epoch=self.lease.epoch,
            position=self.position,
            end=end,
            lag=lag(self.position, end, self.settled, self.parked),
            parked=len(self.parked),
        )


class _State:
    """What all handles of one memory database share."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.topics: dict[str, TopicRow] = {}
        self.records: dict[tuple[int, int], list[Record]] = {}
        self.members: dict[str, MemberRow] = {}
        self.groups: dict[tuple[str, str], list[_GroupPartition]] = {}
        self.dead: dict[tuple[str, str, int, int], DeadLetter] = {}  # by place, oldest first
        self.generation = 0
        self.writes = 0
        self.bells: list[tuple[int, anyio.Event]] = []  # (thread, event) of those who wait to be woken


class MemoryStore:
    """A handle on a database in this process's memory."""

    withholds = False
    poll_seconds = 0.25  # other event loops of this process do not ring

    def __init__(self, *, clock: Callable[[], int] = wall_micros, state: _State | None = None) -> None:
        self._state = state or _State(clock)
        self._heard = 0

    async def open(self, *, migrate: bool, create: bool) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        """Nothing to give back."""

    def sibling(self, *, bound_seconds: float | None = None) -> "MemoryStore":
        """Another handle on the same data."""
        return MemoryStore(state=self._state)

    # Log

    def within(self, connection: object) -> InTransaction:
        """There is no connection that could carry it."""
        raise InvalidConnection("memory:// has no connections; connection= needs SQLite or PostgreSQL")

    async def topic(self, name: str) -> TopicRow | None:
        with self._state.lock:
            return self._state.topics.get(name)

    async def ensure_topic(self, name: str, partitions: int, codec: str) -> TopicRow:
        with self._write() as state:
            if name not in state.topics:
                row = TopicRow(len(state.topics) + 1, name, partitions, codec)
                state.topics[name] = row
                state.records |= {(row.id, partition): [] for partition in range(partitions)}
            return state.topics[name]

    async def append(self, publications: Sequence[Publication]) -> list[int]:
        with self._write() as state:
            return _append(state, publications)

    async def try_append(self, publications: Sequence[Publication]) -> list[int | None]:
        return list(await self.append(publications))

    async def fetch(self, cursors: Sequence[Cursor]) -> list[Fetched]:
        with self._state.lock:
            return [_read(self._state.records[c.topic_id, c.partition], c) for c in cursors]

    async def rung(self, timeout_seconds: float) -> None:
        with self._state.lock:
            if self._heard != self._state.writes:
                self._heard = self._state.writes
                bell = None
            else:
                bell = (threading.get_ident(), anyio.Event())
                self._state.bells.append(bell)
        if bell is None:
            await anyio.lowlevel.checkpoint()
            return
        try:
            with anyio.move_on_after(timeout_seconds):
                await bell[1].wait()
        finally:
            with self._state.lock:
                self._heard = self._state.writes
                if bell in self._state.bells:
                    self._state.bells.remove(bell)

    async def topics(self) -> list[TopicStatus]:
        with self._state.lock:
            return [
                TopicStatus(
                    t.name,
                    t.partitions,
                    t.codec,
                    sum(len(self._state.records[t.id, p]) for p in range(t.partitions)),
                )
                for t in sorted(self._state.topics.values(), key=lambda t: t.name)
            ]

    # Coordination

    async def ensure_group(self, group: str, topic: str, start: str) -> None:
        with self._write() as state:
            if (group, topic) in state.groups:
                return
            row = state.topics.get(topic)
            if row is None:
                raise UnknownTopic(topic, f"topic {topic!r} is not in the database; was it deleted?")
            ends = [_end(state.records[row.id, p]) if start == "latest" else 0 for p in range(row.partitions)]
            state.groups[group, topic] = [_GroupPartition(group, topic, p, end) for p, end in enumerate(ends)]
            state.generation += 1

    async def register(self, member: MemberRow, *, replaces: str | None = None) -> None:
        with self._write() as state:
            if member.member in state.members:
                raise StoreUnavailable(f"member {member.member!r} is registered already; nothing was written")
            if replaces in state.members:
                state.members[replaces] = msgspec.structs.replace(state.members[replaces], dead=True)
            holders = {held.lease.member for held in _all(state)}
            for row in [row for row in state.members.values() if row.dead and row.member not in holders]:
                del state.members[row.member]
            alive_until = state.clock() + member.lease_micros
            state.members[member.member] = msgspec.structs.replace(member, alive_until=alive_until)
            state.generation += 1

    async def beat(self, member: str, *, turned: bool, stopping: bool) -> bool:
        with self._write() as state:
            row, now = state.members.get(member), state.clock()
            if row is None or row.dead:
                return False
            if row.alive_until <= now:
                state.members[member] = msgspec.structs.replace(row, dead=True)
                state.generation += 1
                return False
            if (row.turned, row.stopping) != (turned, stopping):
                state.generation += 1
            state.members[member] = msgspec.structs.replace(
                row, alive_until=now + row.lease_micros, turned=turned, stopping=stopping
            )
            return True

    async def leave(self, member: str) -> None:
        with self._write() as state:
            for held in _all(state):
                if held.lease.member == member:
                    held.lease = held.lease.released()
            state.members.pop(member, None)
            state.generation += 1

    async def generation(self) -> int:
        with self._state.lock:
            return self._state.generation

    async def view(self, pairs: Sequence[tuple[str, str]]) -> View:
        with self._state.lock:
            state = self._state
            return View(
                now=state.clock(),
                generation=state.generation,
                members=tuple(row for _, row in sorted(state.members.items()) if not row.dead),
                leases=tuple(held.lease for pair in pairs for held in _group(state, *pair)),
            )

    async def acquire(
        self, member: str, wanted: Sequence[tuple[str, str, int]], *, dead: Sequence[Beat] = ()
    ) -> list[Held]:
        with self._write() as state:
            for beat in dead:
                _declare_dead(state, beat)
            me = state.members.get(member)
            if me is None or me.dead or me.alive_until <= state.clock():
                return []
            found = [held for want in wanted if (held := _take(state, member, *want)) is not None]
            state.generation += bool(found)
            return found

    async def release(self, leases: Sequence[Lease]) -> None:
        with self._write() as state:
            for lease in leases:
                held = _partition(state, lease.group, lease.topic, lease.partition)
                if held is not None and held.lease == lease:
                    held.lease = lease.released()
            state.generation += 1

    async def members(self) -> list[MemberRow]:
        with self._state.lock:
            return [self._state.members[name] for name in sorted(_live(self._state))]

    # Settlement

    async def commit(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        if any(settlement.statements for settlement in settlements):
            raise StreamsError("memory:// cannot execute SQL; use SQLite or PostgreSQL")
        with self._write() as state:
            _check_new(state, settlements)
            return [Verdict(_settle(state, settlement)) for settlement in settlements]

    async def groups(self) -> list[GroupStatus]:
        with self._state.lock:
            state, live = self._state, _live(self._state)
            statuses = []
            for (group, topic), helds in sorted(state.groups.items()):
                topic_id = state.topics[topic].id
                partitions = tuple(held.status(_end(state.records[topic_id, p]), live) for p, held in enumerate(helds))
                lag, parked = sum(p.lag for p in partitions), sum(p.parked for p in partitions)
                statuses.append(GroupStatus(group, topic, lag, parked, partitions))
            return statuses

    async def parked(self) -> list[ParkedKey]:
        with self._state.lock:
            return parked_keys(
                (group, topic, partition, held.parked[offset])
                for (group, topic), helds in sorted(self._state.groups.items())
                for partition, held in enumerate(helds)
                for offset in sorted(held.parked)
            )

    async def dead(self, which: DeadFilter = EVERY_LETTER) -> list[DeadLetter]:
        with self._state.lock:
            return [letter for letter in self._state.dead.values() if which.takes(letter)]

    async def remove_dead(self, which: DeadFilter) -> int:
        with self._write() as state:
            kept = {place: letter for place, letter in state.dead.items() if not which.takes(letter)}
            removed = len(state.dead) - len(kept)
            state.dead = kept
            return removed

    @contextmanager
    def _write(self) -> Iterator[_State]:
        """Hold the lock and wake, at the end, those of this thread who wait; others find it at their next poll."""
        with self._state.lock:
            yield self._state
            self._state.writes += 1
            thread = threading.get_ident()
            for bell in [bell for bell in self._state.bells if bell[0] == thread]:
                bell[1].set()
                self._state.bells.remove(bell)


def _end(records: list[Record]) -> int:
    return records[-1].offset if records else 0


def _check(state: _State, publications: Sequence[Publication]) -> None:
    """Refuse before anything is written: nothing here could undo it."""
    for publication in publications:
        if (publication.topic_id, publication.partition) not in state.records:
            raise UnknownTopic(str(publication.topic_id), "the topic was deleted meanwhile; nothing was written")


def _append(state: _State, publications: Sequence[Publication]) -> list[int]:
    _check(state, publications)
    now, offsets = state.clock(), []
    for p in publications:
        log = state.records[p.topic_id, p.partition]
        log.append(Record(_end(log) + 1, p.key, p.payload, p.headers, now))
        offsets.append(log[-1].offset)
    return offsets


def _read(log: list[Record], cursor: Cursor) -> Fetched:
    found: list[Record] = []
    size = 0
    if cursor.limit_records <= 0:
        return Fetched(found, cursor.after)
    start = bisect_right(log, cursor.after, key=lambda record: record.offset)
    end = _end(log)
    skipped = {offset for low, high in cursor.skip for offset in range(low, min(high, end) + 1)}
    for record in log[start:]:
        if record.offset in skipped:
            continue
        if len(found) >= cursor.limit_records or (found and size + record.size > cursor.limit_bytes):
            return Fetched(found, found[-1].offset)
        found.append(record)
        size += record.size
    return Fetched(found, max(cursor.after, end))


def _group(state: _State, group: str, topic: str) -> list[_GroupPartition]:
    if (group, topic) not in state.groups:
        raise UnknownTopic(topic, f"group {group!r} of topic {topic!r} is not in the database; was it deleted?")
    return state.groups[group, topic]


def _partition(state: _State, group: str, topic: str, partition: int) -> _GroupPartition | None:
    return next((held for held in state.groups.get((group, topic), ()) if held.lease.partition == partition), None)


def _all(state: _State) -> Iterator[_GroupPartition]:
    for helds in state.groups.values():
        yield from helds


def _live(state: _State) -> set[str]:
    now = state.clock()
    return {name for name, row in state.members.items() if not row.dead and row.alive_until > now}


def _declare_dead(state: _State, beat: Beat) -> None:
    row, now = state.members.get(beat.member), state.clock()
    if row is None or row.alive_until != beat.alive_until:
        return
    if row.alive_until <= now or row.alive_until > now + row.lease_micros:
        state.members[beat.member] = msgspec.structs.replace(row, dead=True)
        state.generation += 1


def _take(state: _State, member: str, group: str, topic: str, partition: int) -> Held | None:
    held = _partition(state, group, topic, partition)
    if held is None:
        return None
    owner = held.lease.member
    if owner is not None and owner in state.members and not state.members[owner].dead:
        return None
    end = _end(state.records[state.topics[topic].id, partition])
    held.lease = held.lease.acquired_by(member)
    parked = tuple(held.parked[offset] for offset in sorted(held.parked))
    return Held(held.lease, held.position, held.settled, end, parked, state.clock())


def _fenced(state: _State, lease: Lease) -> _GroupPartition | None:
    """The partition, if this lease on it still holds."""
    held = _partition(state, lease.group, lease.topic, lease.partition)
    assert lease.member is not None
    return held if held is not None and held.lease.permits(lease.member, lease.epoch) else None


def _check_new(state: _State, settlements: Sequence[Settlement]) -> None:
    """Check what will be published: not that of a settlement which is refused, or is in already."""
    keys: dict[_GroupPartition, tuple[int, int]] = {}
    for settlement in settlements:
        held = _fenced(state, settlement.lease)
        key = settlement.lease.epoch, settlement.progress.number
        if held is not None and key > keys.get(held, held.key):
            keys[held] = key
            _check(state, settlement.publish)


def _settle(state: _State, settlement: Settlement) -> bool:
    lease, progress = settlement.lease, settlement.progress
    held = _fenced(state, lease)
    if held is None:
        return False
    if held.key >= (lease.epoch, progress.number):
        return True
    held.apply(lease.epoch, progress)
    _append(state, settlement.publish)
    now = state.clock()
    for letter in settlement.dead:
        place = letter.group, letter.topic, letter.partition, letter.offset
        state.dead.pop(place, None)
        state.dead[place] = msgspec.structs.replace(letter, died_at=now)
    for offset in settlement.unpark:
        held.parked.pop(offset, None)
    held.parked |= {row.offset: row for row in settlement.park}
    return True

"""A leased partition: its window, and what it has to commit. Fresh for each (partition, epoch).

Only the event loop that owns it touches it. Once it is closed, whatever comes back from its handlers is dropped.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import anyio

from partition import Lane, Window
from streams.errors import PositionBeyondLog
from streams.stores.rows import Cursor, DeadLetter, Fetched, Held, Hole, Parked, Publication, Record, Settlement
from streams.subscription import Subscription
from streams.worker.heart import Heart

WINDOW_RECORDS = 2_000
WINDOW_BYTES = 4 << 20
ALL_WINDOWS_BYTES = 64 << 20
MOST_OUTPUTS = 250
MOST_OUTPUT_BYTES = 16 << 20
"""So many publications of lanes that wait a settlement takes: each may need a lock of its own in the database."""


class _Output(NamedTuple):
    """A record that was handled, in a lane that waits, and what its handler published."""

    lane: Lane[Record]
    offset: int
    publications: list[Publication]


class Actor:
    """The state of one partition under one epoch."""

    def __init__(
        self,
        held: Held,
        subscription: Subscription,
        topic_id: int,
        heart: Heart,
        *,
        now: float = 0.0,
        barred: Iterable[str] = (),
        on_moved: Callable[["Actor"], None],
        on_room: Callable[[], None],
    ) -> None:
        lease = held.lease
        if held.position > held.end:
            raise PositionBeyondLog(lease.group, lease.topic, lease.partition, held.position, held.end)
        self.lease = lease
        self.subscription = subscription
        self.topic_id = topic_id
        self.heart = heart
        self._on_moved = on_moved
        self._on_room = on_room
        self.window: Window[Record] = Window(
            held.position,
            held.settled,
            order=subscription.order,
            limit_records=WINDOW_RECORDS,
            limit_bytes=WINDOW_BYTES,
            barred=barred,
        )
        self.holes: tuple[Hole, ...] = ()  # as the store described those of the window
        self.taking = True  # may records be started?
        self.handing_over = False
        self.closed = False  # is it over? Then nothing that comes back counts
        self.offered = False  # is it in its dispatcher's queue?
        self.more = True  # did the last read leave records behind?
        self.moved = False  # is there something to commit that the settler knows of?
        self.running = 0
        self.quiet = anyio.Event()  # replaced by whoever waits for running to become 0
        self.outbox: list[Publication] = []
        self.causes: list[int] = []  # of each publication the record that it goes with
        self.waiting: deque[_Output] = deque()  # handled; their lanes go on when their settlement is in the store
        self.withheld = 0  # so many of them were sent, and withheld
        self.sent: dict[int, _Output] = {}  # those of the settlement that is on its way, by offset
        self.dead: list[DeadLetter] = []
        self.restored = {row.offset: row for row in held.parked}  # rows of records whose turn has not come yet
        self._parked = set(self.restored)  # the records that have a row, or get one with the next commit
        self._park: dict[int, Parked] = {}  # what is to be committed of them,
        self._unpark: list[int] = []  # and which have settled
        self._zero = now - held.now / 1_000_000  # the database's epoch by the worker's clock

    @property
    def key(self) -> tuple[str, str, int]:
        """(group, topic, partition)."""
        return self.lease.group, self.lease.topic, self.lease.partition

    def __str__(self) -> str:
        return f"{self.lease.topic}/{self.lease.partition} of group {self.lease.group}, epoch {self.lease.epoch}"

    def may_start(self, now: float) -> bool:
        """Whether a handler may start: the partition is not leaving, and its lease is trusted."""
        return self.taking and not self.closed and now < self.heart.trust_until

    def cursor(self, limit_bytes: int) -> Cursor | None:
        """What to read next; None when there is no room, or nothing more is to be read."""
        if self.closed or self.handing_over:
            return None
        records, room_bytes = self.window.room()
        if records == 0:
            return None
        window = self.window
        return Cursor(
            self.topic_id,
            self.lease.partition,
            window.cursor,
            window.inherited,
            records,
            min(room_bytes, limit_bytes),
            self.holes,
            window.order == "partition",
        )

    def admit(self, fetched: Fetched, cursor: Cursor) -> bool:
        """Take in what was read, unless that has been overtaken; whether a lane may run now."""
        if self.closed or self.window.cursor != cursor.after or self.holes != cursor.holes:
            return False
        self.window.admit(fetched.records, fetched.through, fetched.holes)
        self.holes = fetched.holes
        if self.window.dirty and not self.moved:  # the position moves over what was never a record
            self.moved = True
            self._on_moved(self)
        return bool(self.window.ready)

    def settle(self, lane: Lane[Record], outbox: list[Publication]) -> bool:
        """Settle a lane's head along with what its handler published; whether another record of the lane follows."""
        if outbox:
            self.outbox += outbox
        if self._parked:
            self._settles(lane.head.offset)
        follows = self.window.settle(lane)
        if not self.moved:
            self.moved = True
            self._on_moved(self)
        if self.more and len(self.window) == WINDOW_RECORDS // 2:
            self._on_room()
        return follows

    def park(self, lane: Lane[Record], due: float, error: str) -> None:
        """Make durable with the next commit how a lane's head has failed, and when it is due on the worker's clock."""
        head = lane.head
        due_at, since = (round((seconds - self._zero) * 1_000_000) for seconds in (due, lane.since))
        self._park[head.offset] = Parked(head.offset, head.key, lane.attempts, due_at, since, error)
        self._parked.add(head.offset)
        if not self.moved:
            self.moved = True
            self._on_moved(self)

    def restore(self, lane: Lane[Record]) -> float:
        """Let a lane's head go on where it stood under an earlier epoch; when it is due, on the worker's clock."""
        row = self.restored.pop(lane.head.offset)
        lane.attempts = row.attempts
        lane.since = self._zero + row.since / 1_000_000
        return self._zero + row.due_at / 1_000_000

    def _settles(self, offset: int) -> None:
        if offset in self._parked:
            self._parked.remove(offset)
            self._park.pop(offset, None)
            self._unpark.append(offset)

    @property
    def unsaid(self) -> bool:
        """Whether there is something to commit that the store has not answered yet, nor withheld."""
        return bool(self.window.dirty or self.window.uncommitted or self._park or len(self.waiting) > self.withheld)

    def settle_when_committed(self, lane: Lane[Record], outbox: list[Publication]) -> None:
        """Settle a lane's head with the next commit, along with what its handler published; its lane waits for that."""
        self.window.hold(lane)
        self.waiting.append(_Output(lane, lane.head.offset, list(outbox)))
        if not self.moved:
            self.moved = True
            self._on_moved(self)

    def settlement(self) -> Settlement | None:
        """All that was settled since the last call; None when nothing was."""
        self.moved = False
        if self.closed:
            return None
        self._send_waiting()
        if (progress := self.window.advance(anyway=bool(self._park))) is None:
            return None
        made = Settlement(
            self.lease,
            progress,
            tuple(self.outbox),
            tuple(self.causes),
            tuple(self.dead),
            tuple(self._park.values()),
            tuple(self._unpark),
        )
        for said in (self.outbox, self.causes, self.dead, self._park, self._unpark):
            said.clear()
        return made

    def _send_waiting(self) -> None:
        """Put those that wait into the next settlement, as many as one transaction may find slots for."""
        size = 0
        while self.waiting and len(self.outbox) < MOST_OUTPUTS and size < MOST_OUTPUT_BYTES:
            output = self.waiting.popleft()
            size += sum(len(publication.payload) for publication in output.publications)
            if output.lane.items and output.lane.head.offset == output.offset:
                self.window.settle_held(output.lane)
            else:
                self.window.settle_again(output.offset)
            self._settles(output.offset)
            self.sent[output.offset] = output
            self.outbox += output.publications
            self.causes += [output.offset] * len(output.publications)

    def committed(self, settlement: Settlement, withheld: Sequence[int] = ()) -> bool:
        """A settlement is in the store, but for what it withheld; whether a lane may run now."""
        self.window.committed(settlement.progress)
        self.withheld = len(withheld)
        self.waiting.extendleft(self.sent.pop(offset) for offset in reversed(withheld))
        for output in self.sent.values():
            self.window.let_go(output.lane)
        self.sent.clear()
        if self.more:
            self._on_room()
        return bool(self.window.ready)

    def close(self) -> None:
        """The lease is gone: nothing starts, nothing that comes back counts."""
        self.closed = True
        self.taking = False

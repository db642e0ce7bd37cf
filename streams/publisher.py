"""Concurrent publishes share one write.

The first publish goes at once; those that arrive while it is being written go together in the next write. There is no
timer: alone, a publish waits for nobody; under load, one commit carries many. Each caller waits for its own records
only: one that is cancelled before its records were taken withdraws them, one that is cancelled later leaves them to
be written. A topic's row is looked up here, behind those who came before, so that nobody overtakes the first publish of
its topic.

In PostgreSQL the slot of a key may be taken by somebody's open transaction. What comes under it is *late*: it is left
out of the write and goes first in the next one, so that other keys do not wait for it. Who only tries may lose for ever
against two who take turns, so after three tries one slot at a time is waited for, beside the writes.
"""

import copy
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any

import anyio
from anyio.abc import TaskGroup

from partition import SLOTS, slot_of
from streams.errors import NotEntered, PublishUncertain, StoreUnavailable, TopicMismatch
from streams.stores.protocol import Appender, Writer
from streams.stores.rows import Publication
from streams.topic import Prepared, Topic

WRITE_RECORDS = 5_000
WRITE_BYTES = 16 << 20
"""A write ends its collection at so much, so that nobody waits behind a transaction of unbounded length."""
TRIES = 3
FIRST_PAUSE_SECONDS = 0.005
LAST_PAUSE_SECONDS = 0.1

Slot = tuple[int, int]
"""A topic's id, and a slot of keys or, above those, a partition of records without one."""


class _Waiting:
    """A caller's records, and what became of them: those at `left` are not written yet."""

    __slots__ = ("done", "error", "left", "offsets", "publications", "records", "topic")

    def __init__(self, topic: Topic[Any], records: Sequence[Prepared]) -> None:
        self.topic = topic
        self.records = records
        self.done = anyio.Event()
        self.publications: list[Publication] = []
        self.offsets = [0] * len(records)
        self.left: Sequence[int] = range(len(records))
        self.error: Exception | None = None

    def place(self, offsets: Sequence[int | None], of: Sequence[int]) -> None:
        """What a write has made of the records at `of`."""
        if len(of) == len(self.records) and None not in offsets:
            self.offsets, self.left = [offset or 0 for offset in offsets], ()
            self.done.set()
            return
        for index, offset in zip(of, offsets, strict=True):
            self.offsets[index] = offset or 0
        self.left = [index for index in self.left if self.offsets[index] == 0]
        if not self.left:
            self.done.set()

    def fail(self, error: Exception) -> None:
        if self.done.is_set():
            return
        if isinstance(error, StoreUnavailable | PublishUncertain):
            error.written = len(self.records) - len(self.left)
        self.error = error
        self.done.set()


Part = tuple[_Waiting, Sequence[int]]
"""Some of a caller's records."""


class Publisher:
    """Collects what an app's tasks publish and writes it, in the order of the calls."""

    def __init__(self, store: Writer) -> None:
        self.topic_ids: dict[str, int] = {}
        self._store = store
        self._queue: deque[_Waiting] = deque()
        self._late: list[_Waiting] = []
        self._tries: Counter[Slot] = Counter()
        self._awaited: Slot | None = None
        self._pause_seconds = FIRST_PAUSE_SECONDS
        self._arrived = anyio.Event()
        self._closing = False

    async def topic_id(self, topic: Topic[Any]) -> int:
        """The id of the topic's row, which is made if need be, and remembered."""
        found = self.topic_ids.get(topic.name)
        if found is None:
            found = self.topic_ids[topic.name] = await agreed_id(self._store, topic)
        return found

    async def append(self, topic: Topic[Any], records: Sequence[Prepared]) -> list[int]:
        """The offsets, once the records are durable. The error of one who is told less has `written`."""
        if self._closing:
            raise NotEntered("the app is closing; publish before it does")
        waiting = _Waiting(topic, records)
        self._queue.append(waiting)
        self._arrived.set()
        try:
            await waiting.done.wait()
        except BaseException:
            if waiting in self._queue:
                self._queue.remove(waiting)
            raise
        if waiting.error is not None:
            raise waiting.error
        return waiting.offsets

    async def run(self) -> None:
        """Write what arrives, until closed; what was queued by then is still written."""
        batch: list[_Waiting] = []
        try:
            async with anyio.create_task_group() as group:
                while self._queue or self._late or not self._closing:
                    if not self._queue:
                        await self._rest()
                    batch = self._collect()
                    # All that is late goes first: were some left out, what is new could overtake them.
                    await self._write([(one, one.left) for one in (*self._late, *batch)])
                    self._late = [one for one in (*self._late, *batch) if not one.done.is_set()]
                    self._wait_for_the_oldest(group)
        finally:
            self._closing = True
            for waiting in (*self._late, *batch):
                waiting.fail(PublishUncertain("the app was closed during the write; it may be durable or not"))
            for waiting in self._queue:
                waiting.fail(NotEntered("the app was closed before the record was written; nothing of it was"))
            self._queue.clear()

    def close(self) -> None:
        """Let `run` end when the queue is empty."""
        self._closing = True
        self._arrived.set()

    async def _rest(self) -> None:
        """Until something arrives, or what is late is tried again."""
        self._arrived = anyio.Event()
        with anyio.move_on_after(self._pause_seconds if self._late else float("inf")):
            await self._arrived.wait()
        self._pause_seconds = min(2 * self._pause_seconds, LAST_PAUSE_SECONDS) if self._late else FIRST_PAUSE_SECONDS

    def _collect(self) -> list[_Waiting]:
        if len(self._queue) == 1:
            return [self._queue.popleft()]
        batch: list[_Waiting] = []
        records = size = 0
        while self._queue:
            records += len(self._queue[0].records)
            size += sum(len(record.payload) for record in self._queue[0].records)
            if batch and (records > WRITE_RECORDS or size > WRITE_BYTES):
                break
            batch.append(self._queue.popleft())
        return batch

    async def _write(self, parts: Sequence[Part]) -> None:
        """One transaction for all; when it fails for another reason than the database, each in its own."""
        if not parts:
            return
        try:
            for waiting, _ in parts:
                if not waiting.publications:
                    topic_id = await self.topic_id(waiting.topic)
                    waiting.publications = [record.on(topic_id) for record in waiting.records]
            if self._awaited is not None:
                parts = [part for part in map(self._without_the_awaited, parts) if part[1]]
            publications = [waiting.publications[index] for waiting, indexes in parts for index in indexes]
            offsets = await self._store.try_append(publications) if publications else []
        except Exception as error:
            if len(parts) > 1 and not isinstance(error, StoreUnavailable | PublishUncertain):
                for part in parts:
                    await self._write([part])
                return
            for waiting, _ in parts:
                waiting.fail(error if len(parts) == 1 else _own(error))
        else:
            self._place(parts, offsets)

    def _place(self, parts: Sequence[Part], offsets: Sequence[int | None]) -> None:
        start = 0
        for waiting, indexes in parts:
            waiting.place(offsets[start : start + len(indexes)], indexes)
            start += len(indexes)
        missed = {_slot(waiting.publications[index]) for waiting, _ in parts for index in waiting.left}
        self._tries = Counter({slot: self._tries[slot] + 1 for slot in missed - {self._awaited}})

    def _without_the_awaited(self, part: Part) -> Part:
        waiting, indexes = part
        return waiting, [index for index in indexes if _slot(waiting.publications[index]) != self._awaited]

    def _wait_for_the_oldest(self, group: TaskGroup) -> None:
        """Begin to wait for the slot that has been tried for longest, unless one is waited for."""
        if self._awaited is None and self._tries:
            slot, tries = max(self._tries.items(), key=lambda item: item[1])
            if tries >= TRIES:
                self._awaited = slot
                del self._tries[slot]
                group.start_soon(self._wait, slot, name="streams publisher's wait")

    async def _wait(self, slot: Slot) -> None:
        """Write what is late under one slot, once it is free; what comes under it meanwhile goes later."""
        parts = _beginning(
            (one, [index for index in one.left if _slot(one.publications[index]) == slot]) for one in self._late
        )
        try:
            offsets = await self._store.append([one.publications[index] for one, indexes in parts for index in indexes])
        except Exception as error:
            for waiting, indexes in parts:
                if indexes:
                    waiting.fail(_own(error))
        else:
            for waiting, indexes in parts:
                waiting.place(offsets[: len(indexes)], indexes)
                offsets = offsets[len(indexes) :]
        finally:
            self._awaited = None
            self._late = [one for one in self._late if not one.done.is_set()]
            self._arrived.set()


def _slot(publication: Publication) -> Slot:
    key = publication.key
    return publication.topic_id, SLOTS + publication.partition if key is None else slot_of(key)


def _beginning(parts: Iterable[Part]) -> list[Part]:
    """As many of the first ones as one write takes."""
    beginning: list[Part] = []
    size = 0
    for waiting, indexes in parts:
        size += sum(len(waiting.publications[index].payload) for index in indexes)
        if beginning and size > WRITE_BYTES:
            break
        beginning.append((waiting, indexes))
    return beginning


async def agreed_id(appender: Appender, topic: Topic[Any]) -> int:
    """The id of a topic's row, which has to agree with the code."""
    row = await appender.ensure_topic(topic.name, topic.partitions, topic.codec.name)
    for setting, code, database in (
        ("partitions", topic.partitions, row.partitions),
        ("codec", topic.codec.name, row.codec),
    ):
        if code != database:
            raise TopicMismatch(topic.name, setting, code=code, database=database)
    return row.id


def _own(error: Exception) -> Exception:
    """A copy for one caller: an exception raised in several tasks would mix their tracebacks."""
    try:
        own = copy.copy(error)
    except Exception:
        return error
    own.__cause__ = error
    return own

"""Concurrent publishes share one write.

The first publish goes at once; those that arrive while it is being written go together in the next write. There is no
timer: alone, a publish waits for nobody; under load, one commit carries many. Each caller waits for its own records
only: one that is cancelled before its records were taken withdraws them, one that is cancelled later leaves them to
be written. A topic's row is looked up here, behind those who came before, so that nobody overtakes the first publish of
its topic.
"""

import copy
from collections import deque
from collections.abc import Sequence
from typing import Any

import anyio

from streams.errors import NotEntered, PublishUncertain, StoreUnavailable, TopicMismatch
from streams.stores.protocol import Appender
from streams.topic import Prepared, Topic

WRITE_RECORDS = 5_000
"""A write ends its collection at this many records, so that nobody waits behind a transaction of unbounded length."""


class _Waiting:
    """A caller's records, and what became of them."""

    __slots__ = ("done", "error", "offsets", "records", "topic")

    def __init__(self, topic: Topic[Any], records: Sequence[Prepared]) -> None:
        self.topic = topic
        self.records = records
        self.done = anyio.Event()
        self.offsets: list[int] = []
        self.error: Exception | None = None

    def fail(self, error: Exception) -> None:
        self.error = error
        self.done.set()


class Publisher:
    """Collects what an app's tasks publish and writes it, in the order of the calls."""

    def __init__(self, store: Appender) -> None:
        self.topic_ids: dict[str, int] = {}
        self._store = store
        self._queue: deque[_Waiting] = deque()
        self._arrived = anyio.Event()
        self._closing = False

    async def topic_id(self, topic: Topic[Any]) -> int:
        """The id of the topic's row, which is made if need be, and remembered."""
        found = self.topic_ids.get(topic.name)
        if found is None:
            found = self.topic_ids[topic.name] = await agreed_id(self._store, topic)
        return found

    async def append(self, topic: Topic[Any], records: Sequence[Prepared]) -> list[int]:
        """The offsets, once the records are durable."""
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
            while self._queue or not self._closing:
                if not self._queue:
                    self._arrived = anyio.Event()
                    await self._arrived.wait()
                    continue
                batch = self._collect()
                await self._write(batch)
        finally:
            self._closing = True
            for waiting in batch:
                if not waiting.done.is_set():
                    waiting.fail(PublishUncertain("the app was closed during the write; it may be durable or not"))
            for waiting in self._queue:
                waiting.fail(NotEntered("the app was closed before the record was written; nothing of it was"))
            self._queue.clear()

    def close(self) -> None:
        """Let `run` end when the queue is empty."""
        self._closing = True
        self._arrived.set()

    def _collect(self) -> list[_Waiting]:
        batch = [self._queue.popleft()]
        count = len(batch[0].records)
        while self._queue and count + len(self._queue[0].records) <= WRITE_RECORDS:
            batch.append(self._queue.popleft())
            count += len(batch[-1].records)
        return batch

    async def _write(self, batch: list[_Waiting]) -> None:
        """One transaction for all; when it fails for another reason than the database, each in its own."""
        try:
            publications = []
            for waiting in batch:
                topic_id = await self.topic_id(waiting.topic)
                publications += [record.on(topic_id) for record in waiting.records]
            offsets = iter(await self._store.append(publications))
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, StoreUnavailable | PublishUncertain):
                for waiting in batch:
                    await self._write([waiting])
                return
            for waiting in batch:
                waiting.fail(error if len(batch) == 1 else _own(error))
        else:
            for waiting in batch:
                waiting.offsets = [next(offsets) for _ in waiting.records]
                waiting.done.set()


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

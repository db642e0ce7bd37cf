"""Concurrent publishes share one write.

The first publish goes at once; those that arrive while it is being written go together in the next write. There is no
timer: alone, a publish waits for nobody; under load, one commit carries many. Each caller waits for its own records
only: one that is cancelled before its records were taken withdraws them, one that is cancelled later leaves them to
be written.
"""

from collections import deque
from collections.abc import Callable, Sequence

import anyio

from streams.errors import NotEntered, PublishUncertain, StoreUnavailable
from streams.stores.protocol import Appender
from streams.stores.rows import Publication

WRITE_RECORDS = 5_000
"""A write ends its collection at this many records, so that nobody waits behind a transaction of unbounded length."""


class _Waiting:
    """A caller's records, and what became of them."""

    __slots__ = ("done", "error", "offsets", "publications")

    def __init__(self, publications: Sequence[Publication]) -> None:
        self.publications = publications
        self.done = anyio.Event()
        self.offsets: list[int] = []
        self.error: Exception | None = None


class Publisher:
    """Collects what an app's tasks publish and writes it, in the order of the calls."""

    def __init__(self, store: Appender) -> None:
        self._store = store
        self._queue: deque[_Waiting] = deque()
        self._arrived = anyio.Event()
        self._closing = False

    async def append(self, publications: Sequence[Publication]) -> list[int]:
        """The offsets, once the records are durable."""
        if self._closing:
            raise NotEntered("the app is closing; publish before it does")
        waiting = _Waiting(publications)
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
        try:
            while self._queue or not self._closing:
                if not self._queue:
                    self._arrived = anyio.Event()
                    await self._arrived.wait()
                    continue
                await self._write(self._collect())
        finally:
            self._closing = True
            for waiting in self._queue:
                waiting.error = NotEntered("the app was closed before the record was written; nothing of it was")
                waiting.done.set()
            self._queue.clear()

    def close(self) -> None:
        """Let `run` end when the queue is empty."""
        self._closing = True
        self._arrived.set()

    def _collect(self) -> list[_Waiting]:
        batch = [self._queue.popleft()]
        count = len(batch[0].publications)
        while self._queue and count + len(self._queue[0].publications) <= WRITE_RECORDS:
            batch.append(self._queue.popleft())
            count += len(batch[-1].publications)
        return batch

    async def _write(self, batch: list[_Waiting]) -> None:
        """One transaction for all; when it fails for another reason than the database, each in its own."""
        try:
            offsets = iter(await self._store.append([p for waiting in batch for p in waiting.publications]))
            for waiting in batch:
                waiting.offsets = [next(offsets) for _ in waiting.publications]
        except anyio.get_cancelled_exc_class():
            for waiting in batch:
                waiting.error = PublishUncertain("the app was closed during the write; it may be durable or not")
                waiting.done.set()
            raise
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, StoreUnavailable | PublishUncertain):
                for waiting in batch:
                    await self._write([waiting])
                return
            for waiting in batch:
                waiting.error = _own(error)
        for waiting in batch:
            waiting.done.set()


def _own(error: Exception) -> Exception:
    """A copy for one caller: an exception raised in several tasks would mix their tracebacks."""
    make: Callable[..., Exception] = type(error)
    try:
        copy = make(*error.args)
    except Exception:
        return error
    copy.__cause__ = error
    return copy

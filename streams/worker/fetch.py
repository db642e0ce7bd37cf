"""Reading: one statement for all partitions of the process that have room."""

import logging
import random
from collections.abc import Callable, Collection

from streams.stores.protocol import Store
from streams.stores.rows import Cursor, Fetched
from streams.worker.actor import ALL_WINDOWS_BYTES, WINDOW_BYTES, Actor
from streams.worker.backoff import AWAY, Backoff
from streams.worker.signal import Signal

log = logging.getLogger("streams")


class Fetcher:
    """Fills the windows. Woken by hints, at the latest when the wait for a ring is over; else it reads by itself."""

    def __init__(
        self, store: Store, actors: Callable[[], Collection[Actor]], *, on_ready: Callable[[Actor], None]
    ) -> None:
        self._store = store
        self._actors = actors
        self._on_ready = on_ready
        self._wake = Signal()
        self._backoff = Backoff("records cannot be read", log)

    def wake(self) -> None:
        """There may be something to read, or room for it."""
        self._wake.raise_()

    async def run(self) -> None:
        """Read for ever."""
        while True:
            if not await self.read():
                await self._wake.wait(self._store.poll_seconds * random.uniform(1.5, 2.0))

    async def read(self) -> bool:
        """Read once; whether there may be more to read now."""
        actors = list(self._actors())
        limit_bytes = _limits(actors)
        reads = [(actor, cursor) for actor in actors if (cursor := actor.cursor(limit_bytes[actor.more])) is not None]
        if not reads:
            return False
        try:
            found = await self._store.fetch([cursor for _, cursor in reads])
        except AWAY as error:
            await self._backoff.pause(error)
            return False
        self._backoff.over()
        again = False
        for (actor, cursor), fetched in zip(reads, found, strict=True):
            if actor.admit(fetched, cursor):
                self._on_ready(actor)
            actor.more = may_have_more(fetched, cursor)
            again = again or (actor.more and actor.window.room()[0] > 0)
        return again


def _limits(actors: Collection[Actor]) -> tuple[int, int]:
    """How many bytes may be read of a partition: of one that is thought to have no more, and of one that has.

    Half of what a process may hold is shared by all alike, the other half by those that have more: few busy partitions
    among thousands do not get a thousandth each.
    """
    half = ALL_WINDOWS_BYTES // 2
    even = half // max(1, len(actors))
    held = sum(actor.window.held_bytes for actor in actors)
    rest = max(0, half - held) // max(1, sum(actor.more for actor in actors))
    return min(WINDOW_BYTES, even), min(WINDOW_BYTES, even + rest)


def may_have_more(fetched: Fetched, cursor: Cursor) -> bool:
    """Whether there may be something visible that a limit has left out.

    Where only holes gave records, those may have come to an end, or to the limit in bytes: the next read tells.
    """
    if not fetched.records:
        return False
    last = fetched.records[-1].offset
    return len(fetched.records) == cursor.limit_records or last == fetched.through or last <= cursor.after

"""Group settlement: all that was settled since the last commit, over all partitions of the process, in one transaction.

A commit whose answer was lost is tried again unchanged, before anything else: the store knows each settlement by its
number and does not apply it twice.
"""

import logging
from collections.abc import Callable, Sequence

import anyio

from streams.stores.protocol import Store
from streams.stores.rows import Settlement, Verdict
from streams.worker.actor import Actor
from streams.worker.backoff import AWAY, Backoff
from streams.worker.signal import Signal

log = logging.getLogger("streams")

LINGER_SECONDS = 0.02


class Settler:
    """Commits what the actors of a process have settled."""

    def __init__(self, store: Store, *, on_refused: Callable[[Actor], None], on_ready: Callable[[Actor], None]) -> None:
        self._store = store
        self._on_ready = on_ready
        self._on_refused = on_refused
        self._moved: dict[Actor, None] = {}  # in the order in which they first moved
        self._group: list[tuple[Actor, Settlement]] = []  # on its way; kept until its answer is known
        self._wake = Signal()
        self._hurry = Signal()
        self._done = anyio.Event()

    def moved(self, actor: Actor) -> None:
        """An actor has something to commit; one with lanes that wait for it does not wait for others to gather."""
        self._moved[actor] = None
        self._wake.raise_()
        if actor.waiting:
            self._hurry.raise_()

    async def run(self) -> None:
        """Commit what moved, at least `LINGER_SECONDS` from one start to the next."""
        while True:
            if not self._group:
                await self._wake.wait()
            started = anyio.current_time()
            await self.commit()
            await self._hurry.wait(max(0.0, started + LINGER_SECONDS - anyio.current_time()))

    async def commit(self) -> None:
        """Commit what moved until now; what was on its way goes first."""
        if self._group:
            await self._send()
        moved, self._moved = self._moved, {}
        self._group = [(actor, made) for actor in moved if (made := actor.settlement()) is not None]
        if self._group:
            await self._send()
        self._done.set()
        self._done = anyio.Event()

    async def _send(self) -> None:
        """Commit the group, and tell its actors."""
        applied = await self._apply([settlement for _, settlement in self._group])
        group, self._group = self._group, []
        for (actor, settlement), verdict in zip(group, applied, strict=True):
            if not verdict.applied:
                self._on_refused(actor)
            elif not actor.closed and actor.committed(settlement, verdict.withheld):
                self._on_ready(actor)

    async def flush(self, actor: Actor) -> None:
        """Return when all that the actor has settled is committed or withheld, or the actor is closed."""
        while not actor.closed and (actor.unsaid or self._on_its_way(actor)):
            self.moved(actor)
            await self._done.wait()

    def _on_its_way(self, actor: Actor) -> bool:
        return any(other is actor for other, _ in self._group)

    async def _apply(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        """The store's answer, however long it is away: nobody is charged for that."""
        backoff = Backoff("settlements cannot be committed", log)
        while True:
            try:
                applied = await self._store.commit(settlements)
            except AWAY as error:
                await backoff.pause(error)
            else:
                backoff.over()
                return applied

"""Handing a partition over: stop taking, let handlers end, commit, release."""

import logging
from collections.abc import Callable, Mapping

import anyio

from streams.stores.protocol import Store
from streams.worker.actor import Actor
from streams.worker.backoff import AWAY, Backoff
from streams.worker.dispatch import Dispatcher
from streams.worker.settle import Settler

log = logging.getLogger("streams")

LONG_SECONDS = 1.0
"""While a handler that was running at the start of a handover has run for so long, other keys go on meanwhile."""
LOOK_SECONDS = 0.25


class Handover:
    """Ends the partitions of a member that go elsewhere."""

    def __init__(
        self,
        store: Store,
        dispatchers: Mapping[tuple[str, str], Dispatcher],
        settler: Settler,
        *,
        handover_seconds: float,
        clock: Callable[[], float],
        on_released: Callable[[Actor], None],
    ) -> None:
        self.stopping = False
        self._store = store
        self._dispatchers = dispatchers
        self._settler = settler
        self._handover_seconds = handover_seconds
        self._clock = clock
        self._on_released = on_released
        self._leaving: dict[Actor, None] = {}  # done with, and not released yet
        self._turn = anyio.Lock()

    async def run(self, actor: Actor) -> None:
        """Hand one partition over, waiting at most `handover_seconds` for its handlers; then they are cancelled.

        While a handler from before runs long, other keys go on, unless the worker is stopping. Handlers that do not
        end when cancelled keep the partition: it is not released by choice while they run. After an error that nobody
        expects the partition is worked on as before, until whoever wanted the handover wants it again; if handlers
        were cancelled by then, it is begun afresh under another epoch.
        """
        actor.handing_over = True
        deadline = self._clock() + self._handover_seconds
        try:
            await self._run(actor, deadline)
        except Exception:
            log.exception("%s: the handover failed", actor)
            actor.handing_over = False
            actor.taking = not (self.stopping or actor.closed)
            if self._clock() >= deadline and not actor.running:
                actor.close()
                self._on_released(actor)

    async def _run(self, actor: Actor, deadline: float) -> None:
        dispatcher = self._dispatchers[actor.lease.group, actor.lease.topic]
        earlier = [(runner, runner.lane, runner.started) for runner in dispatcher.busy(actor)]
        actor.taking = False
        while actor.running and not actor.closed:
            now = self._clock()
            if now >= deadline:
                actor.taking = False
                dispatcher.cancel(actor)
            else:
                actor.taking = not self.stopping and any(
                    runner.lane is lane and runner.started == started and now - started > LONG_SECONDS
                    for runner, lane, started in earlier
                )
                dispatcher.offer(actor)
            actor.quiet = anyio.Event()
            with anyio.move_on_after(LOOK_SECONDS):
                await actor.quiet.wait()
        actor.taking = False
        await self._settler.flush(actor)
        await self._release(actor)

    async def _release(self, actor: Actor) -> None:
        """Release along with all that are done while others are released: a process may hold thousands."""
        self._leaving[actor] = None
        try:
            async with self._turn:
                await self._release_all(actor)
        finally:
            del self._leaving[actor]

    async def _release_all(self, actor: Actor) -> None:
        backoff = Backoff(f"{actor} cannot be released", log)
        while not actor.closed:
            leaving = [one for one in self._leaving if not one.closed]
            try:
                await self._store.release([one.lease for one in leaving])
            except AWAY as error:
                await backoff.pause(error)
            else:
                for one in leaving:
                    one.close()
                    self._on_released(one)
                    log.debug("%s: released at %d", one, one.window.position)

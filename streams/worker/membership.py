"""One life of a worker under one member id: from registering to leaving, or to the end of trust."""

import logging
import os
import random
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum

import anyio

from partition import Rhythm
from streams.settings import Settings
from streams.stores.protocol import Store
from streams.stores.rows import MemberRow
from streams.worker.actor import Actor
from streams.worker.backoff import AWAY
from streams.worker.dispatch import Dispatcher
from streams.worker.fetch import Fetcher
from streams.worker.handover import Handover
from streams.worker.heart import Heart, beating
from streams.worker.rebalance import Rebalancer
from streams.worker.settle import Settler
from streams.worker.supervision import supervised

log = logging.getLogger("streams")

PULSE_SECONDS = 0.25
HANDLERS_SECONDS = 2.0
"""So long cancelled handlers are waited for before the rest is handed back without them."""
STORE_SECONDS = 2.5
"""So long the store is given to take back what is handed back in a hurry."""
IDLE_LOOK_SECONDS = 0.1
RING_SECONDS = 0.005


class End(Enum):
    """How a life ended."""

    DRAINED = "drained"
    TIMED_OUT = "timed out"
    LOST = "lost"


class Membership:
    """Registers, runs the loops, and hands back."""

    def __init__(
        self,
        store: Store,
        dispatchers: Mapping[tuple[str, str], Dispatcher],
        topic_ids: Mapping[str, int],
        settings: Settings,
        *,
        clock: Callable[[], float],
        heart_in_thread: bool,
        new_id: Callable[[], str],
    ) -> None:
        self.me = new_id()
        self._store = store
        self._dispatchers = dispatchers
        self._topic_ids = topic_ids
        self._settings = settings
        self._clock = clock
        self._heart_in_thread = heart_in_thread
        self._rhythm = Rhythm.of(settings.lease_seconds)
        self._over = anyio.Event()
        self._end: End | None = None
        self._released = anyio.Event()

    async def run(
        self, stop: anyio.Event, *, until_idle: bool, replaces: str | None, joined: Callable[[], None]
    ) -> End:
        """Live until `stop` is set, nothing is left to do (with `until_idle`), or trust ends."""
        sent = self._clock()
        started = False
        try:
            await self._register(replaces)
            joined()
            self._heart = Heart(
                self.me, self._rhythm, self._clock, sent=sent, stall_seconds=self._settings.stall_seconds
            )
            bound = self._rhythm.bound_seconds
            async with beating(
                self._heart, lambda: self._store.sibling(bound_seconds=bound), in_thread=self._heart_in_thread
            ):
                started = True
                try:
                    await self._live(stop, until_idle)
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._hand_back()
        except BaseException:
            if not started:
                await self._undo_start()
            raise
        assert self._end is not None
        return self._end

    async def _register(self, replaces: str | None) -> None:
        row = MemberRow(
            member=self.me,
            host=socket.gethostname(),
            pid=os.getpid(),
            serves=tuple(self._dispatchers),
            lease_micros=self._settings.lease_micros,
        )
        await self._store.register(row, replaces=replaces)

    async def _undo_start(self) -> None:
        """Take the member's row back, if there is one."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(STORE_SECONDS), suppress(*AWAY):
            await self._store.leave(self.me)

    async def _live(self, stop: anyio.Event, until_idle: bool) -> None:
        async with anyio.create_task_group() as group:
            self._settler = Settler(self._store, on_refused=self._lose, on_ready=self._ready)
            self._handover = Handover(
                self._store,
                self._dispatchers,
                self._settler,
                handover_seconds=self._settings.handover_seconds,
                clock=self._clock,
                on_released=self._forget,
            )
            self._rebalancer = Rebalancer(
                self.me,
                self._store,
                self._dispatchers,
                self._topic_ids,
                self._heart,
                self._handover,
                group=group,
                clock=self._clock,
                beat_seconds=self._rhythm.beat_seconds,
                on_moved=self._settler.moved,
                on_room=lambda: self._fetcher.wake(),
                on_lost=self._lose,
            )
            self._fetcher = Fetcher(self._store, self._actors.values, on_ready=self._ready)
            self._rebalancing = anyio.CancelScope()
            for name, loop in (
                ("settler", self._settler.run),
                ("fetcher", self._fetcher.run),
                ("rebalancer", self._rebalance),
                ("doorbell", self._listen),
                ("pulse", self._pulse),
            ):
                group.start_soon(supervised, name, loop, name=f"streams {name}")
            group.start_soon(self._stop_when, stop)
            if until_idle:
                group.start_soon(supervised, "idle watch", lambda: self._stop_when_idle(stop))
            log.info("member %s: started", self.me)
            await self._over.wait()
            group.cancel_scope.cancel()

    @property
    def _actors(self) -> dict[tuple[str, str, int], Actor]:
        return self._rebalancer.actors

    def _finish(self, end: End) -> None:
        self._end = self._end or end
        self._over.set()

    # Loops

    async def _rebalance(self) -> None:
        if self._handover.stopping:
            await anyio.sleep_forever()
        with anyio.CancelScope() as self._rebalancing:
            await self._rebalancer.run()

    async def _listen(self) -> None:
        """Pass rings on to those who look."""
        while True:
            await self._store.rung(self._store.poll_seconds * random.uniform(1.0, 1.25))
            self._fetcher.wake()
            self._rebalancer.ring()
            await anyio.sleep(RING_SECONDS)

    async def _pulse(self) -> None:
        """Tell the heart that this loop turns, and end this life when trust ends."""
        pause = min(PULSE_SECONDS, self._settings.lease_seconds / 20)
        while True:
            self._heart.turns += 1
            if self._clock() >= self._heart.trust_until:
                log.warning("member %s: cannot know any more that its leases hold, and stops itself", self.me)
                self._finish(End.LOST)
            for actor in self._actors.values():
                self._ready(actor)  # One that was passed over when a beat was late goes on.
                if actor.waiting:
                    self._settler.moved(actor)  # What was withheld is tried again.
            await anyio.sleep(pause)

    async def _stop_when(self, stop: anyio.Event) -> None:
        await stop.wait()
        self._finish(End.DRAINED if await self._drain() else End.TIMED_OUT)

    async def _stop_when_idle(self, stop: anyio.Event) -> None:
        while True:
            await anyio.sleep(IDLE_LOOK_SECONDS)
            if all(actor.window.idle and not actor.more for actor in self._actors.values()):
                groups = await self._store.groups()
                if not any(one.lag or one.parked for one in groups if (one.group, one.topic) in self._dispatchers):
                    stop.set()

    # Partitions

    def _ready(self, actor: Actor) -> None:
        self._dispatchers[actor.key[:2]].offer(actor)

    def _lose(self, actor: Actor) -> None:
        """A lease that passed on: drop what was in flight, record nothing."""
        if not actor.closed:
            actor.close()
            self._dispatchers[actor.key[:2]].cancel(actor)
            self._forget(actor)
            log.warning("%s: the lease has passed on; what was in flight is dropped", actor)

    def _forget(self, actor: Actor) -> None:
        if self._actors.get(actor.key) is actor:
            del self._actors[actor.key]
        self._dispatchers[actor.key[:2]].forget(actor)
        self._released.set()

    # Ending

    async def _drain(self) -> bool:
        """Hand everything over while the heart beats; whether that was done in time."""
        self._heart.stopping = self._handover.stopping = True
        self._rebalancing.cancel()
        for actor in self._actors.values():
            actor.taking = False
        with anyio.move_on_after(self._settings.shutdown_seconds):
            with anyio.move_on_after(self._rhythm.bound_seconds), suppress(Exception):  # The heart says it soon, too.
                await self._store.beat(self.me, turned=True, stopping=True)
            async with anyio.create_task_group() as group:
                while self._actors:  # One whose acquisition was on its way comes later than the others.
                    for actor in self._actors.values():
                        if not actor.handing_over:
                            actor.handing_over = True
                            group.start_soon(self._handover.run, actor)
                    self._released = anyio.Event()
                    with anyio.move_on_after(PULSE_SECONDS):
                        await self._released.wait()
            return True
        log.warning("member %s: still at work after %g s", self.me, self._settings.shutdown_seconds)
        return False

    async def _hand_back(self) -> None:
        """What is left at the end: after a drain only the member's row; in a hurry, all of it, within bounds."""
        actors = list(self._actors.values())
        lost = self._end is End.LOST
        for actor in actors:
            actor.taking = False
            if lost:
                actor.close()
            self._dispatchers[actor.key[:2]].cancel(actor)
        with anyio.move_on_after(HANDLERS_SECONDS):
            for actor in actors:
                while actor.running:
                    actor.quiet = anyio.Event()
                    await actor.quiet.wait()
        if not lost:
            with anyio.move_on_after(STORE_SECONDS):
                await self._give_back(actors)
        for actor in actors:
            actor.close()
            self._forget(actor)

    async def _give_back(self, actors: list[Actor]) -> None:
        try:
            await self._settler.commit()
            if any(actor.running for actor in actors):  # a handler that does not end keeps its partition
                await self._store.release([actor.lease for actor in actors if not actor.running])
            else:
                await self._store.leave(self.me)
                log.info("member %s: left", self.me)
        except Exception as error:
            log.warning("member %s: could not hand back its leases, they expire: %s", self.me, error)

"""The heart: one small write that renews all of a process's leases, in a thread of its own.

A handler that blocks the main loop for a minute does not stop the heart, since it has its own thread, event loop and
connection. What the main loop reads from it is `trust_until`: past that time the member may be taken for dead, and
nothing may start. Trust counts from when the last successful beat was *sent*, by a clock that goes on while the
machine sleeps.
"""

import logging
import os
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread
from anyio.from_thread import start_blocking_portal

from partition import Rhythm
from streams.stores.protocol import Store

log = logging.getLogger("streams")

EXIT_STALLED = 70


def end_process() -> None:
    """End a process whose main loop has stopped: its partitions are of more use elsewhere."""
    os._exit(EXIT_STALLED)


class Heart:
    """Beats for one member. Made when the member was registered; `sent` is when that was sent, by `clock`."""

    def __init__(
        self,
        member: str,
        rhythm: Rhythm,
        clock: Callable[[], float],
        *,
        sent: float,
        stall_seconds: float,
        on_stall: Callable[[], None] = end_process,
    ) -> None:
        self.trust_until = rhythm.trusted_until(sent)
        self.lost = False
        self.stopping = False
        self.turns = 0  # counted up by the main loop
        self._member = member
        self._rhythm = rhythm
        self._clock = clock
        self._next = rhythm.next_beat(sent, clock(), succeeded=True)
        self._stall_seconds = stall_seconds
        self._on_stall = on_stall
        self._main_thread = threading.get_ident()

    async def run(self, make_store: Callable[[], Store]) -> None:
        """Beat until cancelled or refused. Errors of the store are tried again; none ends the loop."""
        store = make_store()
        opened = False
        stalled_seconds, turns, looked = 0.0, self.turns, self._clock()
        try:
            while not self.lost:
                await anyio.sleep(max(0.0, self._next - self._clock()))
                sent = self._clock()
                turned, turns = self.turns != turns, self.turns
                # Time in which this loop stood still too, asleep or stopped, is not held against the main loop.
                stalled_seconds = 0.0 if turned else stalled_seconds + min(sent - looked, self._rhythm.beat_seconds)
                looked = sent
                if stalled_seconds >= self._stall_seconds:
                    self._stalled(stalled_seconds)
                    return
                succeeded = False
                try:
                    with anyio.fail_after(self._rhythm.bound_seconds):
                        if not opened:
                            await store.open(migrate=False, create=False)
                            opened = True
                        alive = await store.beat(self._member, turned=turned, stopping=self.stopping)
                    succeeded = alive
                    if not alive:
                        self._refused()
                except Exception as error:
                    log.warning("member %s: a heartbeat failed: %s: %s", self._member, type(error).__name__, error)
                if succeeded:
                    self.trust_until = self._rhythm.trusted_until(sent)
                self._next = self._rhythm.next_beat(sent, self._clock(), succeeded=succeeded)
        finally:
            with anyio.CancelScope(shield=True):
                await store.close()

    def _refused(self) -> None:
        self.lost = True
        self.trust_until = float("-inf")
        log.warning("member %s: its lease has expired; it joins again under a new id", self._member)

    def _stalled(self, seconds: float) -> None:
        frame = sys._current_frames().get(self._main_thread)
        stack = "".join(traceback.format_stack(frame)) if frame else "(the main thread is gone)"
        log.critical(
            "the event loop has not turned for %.0f s; this process ends so that others can take its partitions. "
            "The main thread is at:\n%s",
            seconds,
            stack,
        )
        self.trust_until = float("-inf")
        self._on_stall()


@asynccontextmanager
async def beating(heart: Heart, make_store: Callable[[], Store], *, in_thread: bool) -> AsyncIterator[None]:
    """Let the heart beat while the block runs: in a thread of its own, or (in simulations) as a task."""
    if not in_thread:
        async with anyio.create_task_group() as group:
            group.start_soon(heart.run, make_store)
            try:
                yield
            finally:
                group.cancel_scope.cancel()
        return
    portals = start_blocking_portal(name="streams-heart")
    portal = await to_thread.run_sync(portals.__enter__)
    beats = portal.start_task_soon(heart.run, make_store)
    try:
        yield
    finally:
        beats.cancel()
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(portals.__exit__, None, None, None)

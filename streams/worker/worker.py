"""The worker: runs the subscriptions of one process, one membership after another."""

import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

import anyio

from streams.clock import boottime
from streams.context import Prepare
from streams.errors import StreamsError
from streams.settings import Settings
from streams.stores.protocol import Store
from streams.subscription import Subscription
from streams.worker.backoff import AWAY, Backoff
from streams.worker.dispatch import Dispatcher
from streams.worker.membership import End, Membership
from streams.worker.supervision import supervised

log = logging.getLogger("streams")


def new_id() -> str:
    """A member's id, new at every start; host and process are in it for people to read."""
    return f"{socket.gethostname()[:64]}-{os.getpid()}-{uuid4().hex[:12]}"


class Worker:
    """Handles the records of some subscriptions, sharing their partitions with other workers."""

    def __init__(
        self,
        store: Store,
        subscriptions: Sequence[Subscription],
        settings: Settings,
        *,
        prepare: Prepare,
        topic_ids: Mapping[str, int],
        clock: Callable[[], float] = boottime,
        heart_in_thread: bool = True,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        self._store = store
        self._subscriptions = subscriptions
        self._settings = settings
        self._prepare = prepare
        self._topic_ids = topic_ids
        self._clock = clock
        self._heart_in_thread = heart_in_thread
        self._new_id = new_id

    async def run(self, stop: anyio.Event, *, until_idle: bool = False) -> bool:
        """Work until `stop` is set; then drain; whether the drain ended in time.

        A member that lost its leases joins again under a new id; handlers of its former life that do not end when
        cancelled keep their keys closed in this process.

        Raises:
            StoreUnavailable, PublishUncertain: the database was away at the start; later it is waited for.
        """
        for one in self._subscriptions:
            await self._store.ensure_group(one.group, one.topic.name, one.start)
        failure: StreamsError | None = None
        drained: bool | None = None
        async with anyio.create_task_group() as group:
            dispatchers = {
                one.pair: Dispatcher(
                    one, group, prepare=self._prepare, clock=self._clock, withholds=self._store.withholds
                )
                for one in self._subscriptions
            }
            for dispatcher in dispatchers.values():
                group.start_soon(supervised, "retry timer", dispatcher.run_later)
            try:
                drained = await self._memberships(dispatchers, stop, until_idle)
            except AWAY as error:
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if drained is None:
            raise StreamsError("other code has cancelled a task of the worker; its partitions were handed back")
        return drained

    async def _memberships(
        self, dispatchers: Mapping[tuple[str, str], Dispatcher], stop: anyio.Event, until_idle: bool
    ) -> bool:
        """One life after another, until one is ended on purpose."""
        replaces: str | None = None
        backoff = Backoff("this worker cannot join again", log)
        while True:
            membership = Membership(
                self._store,
                dispatchers,
                self._topic_ids,
                self._settings,
                clock=self._clock,
                heart_in_thread=self._heart_in_thread,
                new_id=self._new_id,
            )
            try:
                end = await membership.run(stop, until_idle=until_idle, replaces=replaces, joined=backoff.over)
            except AWAY as error:
                if replaces is None:
                    raise
                if stop.is_set():
                    return False
                await backoff.pause(error)
                continue
            if end is not End.LOST:
                return end is End.DRAINED
            replaces = membership.me

"""The worker: runs the subscriptions of one process, one membership after another."""

import logging
from collections.abc import Callable, Mapping, Sequence

import anyio

from streams.clock import boottime
from streams.context import Prepare
from streams.errors import StoreUnavailable
from streams.settings import Settings
from streams.stores.protocol import Store
from streams.subscription import Subscription
from streams.worker.backoff import Backoff
from streams.worker.dispatch import Dispatcher
from streams.worker.membership import End, Membership
from streams.worker.supervision import supervised

log = logging.getLogger("streams")


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
    ) -> None:
        self._store = store
        self._subscriptions = subscriptions
        self._settings = settings
        self._prepare = prepare
        self._topic_ids = topic_ids
        self._clock = clock
        self._heart_in_thread = heart_in_thread

    async def run(self, stop: anyio.Event, *, until_idle: bool = False) -> bool:
        """Work until `stop` is set; then drain; whether the drain ended in time.

        A member that lost its leases joins again under a new id; handlers of its former life that do not end when
        cancelled keep their keys closed in this process.

        Raises:
            StoreUnavailable: the database was away at the start; later it is waited for.
        """
        for one in self._subscriptions:
            await self._store.ensure_group(one.group, one.topic.name, one.start)
        failure: StoreUnavailable | None = None
        drained = True
        async with anyio.create_task_group() as group:
            dispatchers = {
                one.pair: Dispatcher(one, group, prepare=self._prepare, clock=self._clock)
                for one in self._subscriptions
            }
            for dispatcher in dispatchers.values():
                group.start_soon(supervised, "retry timer", dispatcher.run_later)
            try:
                drained = await self._memberships(dispatchers, stop, until_idle)
            except StoreUnavailable as error:
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
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
            )
            try:
                end = await membership.run(stop, until_idle=until_idle, replaces=replaces)
            except StoreUnavailable as error:
                if replaces is None:
                    raise
                if stop.is_set():
                    return False
                await backoff.pause(error)
                continue
            if end is not End.LOST:
                return end is End.DRAINED
            backoff.over()
            replaces = membership.me

"""A worker as a service: it waits for its database, drains at the first signal, and stops at the second."""

import logging
import signal
from collections.abc import AsyncIterator, Sequence

import anyio

from streams import Streams
from streams.cli.watchdog import Watchdog, listening
from streams.errors import StoreUnavailable
from streams.stores import open_store
from streams.worker.backoff import Backoff

log = logging.getLogger("streams")

SIGNALS = signal.SIGINT, signal.SIGTERM


class Service:
    """Runs the subscriptions of an app until it is told to stop. `topics` and `groups` choose among them."""

    def __init__(self, app: Streams, *, topics: Sequence[str] | None, groups: Sequence[str] | None) -> None:
        self._app = app
        self._topics = topics
        self._groups = groups
        self._watchdog = Watchdog(app.settings.shutdown_seconds)

    async def run(self) -> bool:
        """Whether it was drained in time; a stop while it waited for its database counts as that.

        Raises:
            StreamsError: what no waiting can mend.
        """
        self._stop = anyio.Event()
        self._waiting = anyio.CancelScope()
        failure: Exception | None = None
        drained = False
        self._watchdog.start()
        with anyio.open_signal_receiver(*SIGNALS) as signals, listening(self._watchdog, SIGNALS):
            async with anyio.create_task_group() as group:
                group.start_soon(self._obey, signals, group.cancel_scope)
                try:
                    drained = await self._work()
                except Exception as error:  # Raised outside, or the task group would wrap it.
                    failure = error
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return drained

    async def _obey(self, signals: AsyncIterator[signal.Signals], everything: anyio.CancelScope) -> None:
        async for number in signals:
            if self._stop.is_set():
                log.warning("%s again: this worker stops now", number.name)
                everything.cancel()
                return
            log.info(
                "%s: this worker drains, for up to %g s; a second signal stops it at once",
                number.name,
                self._app.settings.shutdown_seconds,
            )
            self._stop.set()
            self._waiting.cancel()

    async def _work(self) -> bool:
        backoff = Backoff("this worker cannot begin", log)
        while True:
            with anyio.CancelScope() as self._waiting:
                await self._wait_for_database()
            if self._stop.is_set():
                return True
            try:
                return await self._app._work(self._stop, topics=self._topics, groups=self._groups)
            except StoreUnavailable as error:  # Raised before it has begun; later it waits by itself.
                with anyio.CancelScope() as self._waiting:
                    await backoff.pause(error)

    async def _wait_for_database(self) -> None:
        backoff = Backoff("this worker waits for its database", log)
        settings = self._app.settings
        make = settings.migrate == "auto"
        while True:
            store = open_store(settings.url, schema=settings.schema)
            try:
                await store.open(migrate=make, create=make)
            except StoreUnavailable as error:
                await backoff.pause(error)
            else:
                backoff.over()
                return
            finally:
                await store.close()

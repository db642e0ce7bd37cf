"""Where a measurement is made: a database, a folder, and the processes that it starts. All are gone at the end."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

import anyio

from streams import Streams
from streams.cli.bench.errand import Errand
from streams.cli.bench.figure import BenchFailed
from streams.cli.bench.notes import Reader
from streams.cli.bench.order import PARTITIONS, publications
from streams.cli.child import Child
from streams.cli.options import Database
from streams.clock import boottime
from streams.stores import Store, open_store
from streams.stores.bare import kind_of, open_bare, open_bare_server
from streams.stores.rows import GroupStatus
from streams.stores.yardstick import Bare, BareServer

FILL_RECORDS = 10_000
GROUP = "bench"
LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 60.0
"""So long nothing may move before a measurement is given up."""
END_SECONDS = 30.0
LEASE_SECONDS = 10.0


class Worker(Child):
    """One process, what it has noted, and what it logs."""

    def __init__(self, url: str, schema: str, errand: Errand, *, lease_seconds: float, log_level: str) -> None:
        self.log = errand.notes.with_suffix(".log")
        self.notes = Reader(errand.notes)
        flags = "--schema", schema, "--lease-seconds", f"{lease_seconds:g}"
        logging = "--log-level", log_level, "--log-format", "json"
        environment = {**errand.environment(), "STREAMS_URL": url}  # Not a flag: every user sees those of a process.
        super().__init__("streams.cli.bench.handlers:app", *flags, *logging, environment=environment, log=self.log)


class Site:
    """The place of one measurement. In a database of the user's its topics get names of their own, and stay."""

    def __init__(self, name: str, folder: Path, url: str | None) -> None:
        self.name = name
        self._folder = folder
        self._suffix = "" if url is None else f"-{uuid4().hex[:8]}"
        self._database = Database(url=url or f"sqlite:///{folder}/{name}.db")
        settings = self._database.app(migrate="auto").settings
        self.url, self._schema = settings.url, settings.schema
        self.kind = kind_of(self.url)
        self._workers: list[Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.end()

    def topic(self, name: str) -> str:
        """What a topic is called here."""
        return f"bench-{self.name}-{name}{self._suffix}"

    def app(self) -> Streams:
        """An app on the database, without declarations."""
        return self._database.app(migrate="auto")

    @asynccontextmanager
    async def bare(self) -> AsyncIterator[Bare]:
        """The driver's own connection to the database."""
        bare = await open_bare(self.url, schema=self._schema)
        try:
            yield bare
        finally:
            await bare.close()

    @asynccontextmanager
    async def server(self) -> AsyncIterator[BareServer]:
        """The same to a database that many share."""
        bare = await open_bare_server(self.url, schema=self._schema)
        try:
            yield bare
        finally:
            await bare.close()

    @asynccontextmanager
    async def store(self) -> AsyncIterator[Store]:
        """The store, its tables made."""
        store = open_store(self.url, schema=self._schema)
        await store.open(migrate=True, create=True)
        try:
            yield store
        finally:
            await store.close()

    async def fill(self, topic: str, records: int, *, partitions: int = PARTITIONS) -> None:
        """Let so many orders wait in a new topic. Quicker than publishing them, and the same afterwards."""
        async with self.store() as store:
            row = await store.ensure_topic(topic, partitions, "json")
            for low in range(0, records, FILL_RECORDS):
                await store.append(list(publications(row.id, low, min(low + FILL_RECORDS, records))))

    def start(
        self,
        errand: Errand,
        *,
        url: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
        log_level: str = "info",
    ) -> Worker:
        """A worker process."""
        worker = Worker(url or self.url, self._schema, errand, lease_seconds=lease_seconds, log_level=log_level)
        self._workers.append(worker)
        return worker

    def errand(self, topic: str, group: str = GROUP, *, partitions: int = PARTITIONS, **how: object) -> Errand:
        """What a worker is to do; its notes go to a new file of the folder."""
        notes = self._folder / f"{self.name}-{len(self._workers)}.notes"
        return Errand(topic, group, partitions, notes, **how)  # type: ignore[arg-type]

    async def stop(self, worker: Worker) -> None:
        """Let it drain; one that does not is killed."""
        worker.terminate()
        with anyio.move_on_after(END_SECONDS):
            await worker.wait()
        worker.end()

    async def until(
        self,
        condition: Callable[[GroupStatus], bool],
        app: Streams,
        topic: str,
        group: str = GROUP,
        *,
        look_seconds: float = LOOK_SECONDS,
    ) -> float:
        """Return when a group is as it is to be; when that was seen."""
        last, since = None, boottime()
        while True:
            found = await self.status(app, topic, group)
            seen = boottime()
            if found is not None and condition(found):
                return seen
            if found != last:
                last, since = found, seen
            if seen - since > PATIENCE_SECONDS:
                raise BenchFailed(f"{self.name}: nothing has moved for {PATIENCE_SECONDS:g} s")
            self.check()
            await anyio.sleep(look_seconds)

    async def status(self, app: Streams, topic: str, group: str = GROUP) -> GroupStatus | None:
        """Where a group is; None before it was made."""
        for found in await app.admin.groups():
            if (found.group, found.topic) == (group, topic):
                return found
        return None

    def check(self) -> None:
        """Every worker that nobody has stopped runs.

        Raises:
            BenchFailed: one has ended by itself.
        """
        for worker in self._workers:
            if worker.ended_at is None and not worker.look():
                words = worker.last_words().splitlines() or ["it said nothing"]
                raise BenchFailed(f"{self.name}: a worker has ended with {worker.code}: {words[-1]}")


def is_shared(members: int) -> Callable[[GroupStatus], bool]:
    """Whether so many members have their share of all partitions."""

    def shared(status: GroupStatus) -> bool:
        owners = [one.owner for one in status.partitions]
        counts = [owners.count(owner) for owner in set(owners)]
        return None not in owners and len(counts) == members and max(counts) - min(counts) <= 1

    return shared

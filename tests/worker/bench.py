"""An app on a store that a test can reach, and the workers that run it."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any, Self

import anyio
import pytest

import streams.app
from partition import partition_of
from streams import Streams
from streams.retry import State
from streams.stores.protocol import Store
from streams.stores.rows import Cursor, GroupStatus, PartitionStatus
from streams.worker import Worker
from tests.worker.faults import Faults, faulty

LOOK_SECONDS = 0.01


def at_once(state: State) -> float:
    """A retry strategy for `wait=`: no waiting."""
    return 0.0


def keys_in(partition: int, partitions: int) -> Iterator[str]:
    """Keys that live in a partition; there is no end of them."""
    return (key for n in count() if partition_of(key := f"key-{n}", partitions) == partition)


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Return when a condition holds. For what a database or another thread says, which sets no event."""
    while True:
        answer = condition()
        if answer is True or (not isinstance(answer, bool) and await answer):
            return
        await anyio.sleep(LOOK_SECONDS)


class Job:
    """A worker in the background."""

    def __init__(self) -> None:
        self.stop = anyio.Event()
        self.over = anyio.Event()
        self.scope = anyio.CancelScope()
        self.drained: bool | None = None
        """What the worker answered; None until then, and when it was cancelled."""

    async def run(self, bench: "Bench") -> None:
        with self.scope:
            self.drained = await bench.work(self.stop)
        self.over.set()

    async def finish(self) -> bool | None:
        """Stop it and wait for its end."""
        self.stop.set()
        await self.over.wait()
        return self.drained

    async def cancel(self) -> None:
        """Cancel it and wait for its end."""
        self.scope.cancel()
        await self.over.wait()


class Bench:
    """One entered app. `limit_seconds` is how long a test may take, by the test's clock."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float],
        heart_in_thread: bool,
        limit_seconds: float,
        **options: Any,
    ) -> None:
        self.faults = Faults()
        self.store = faulty(store, self.faults)
        self.app = Streams("memory://", **options)
        self.clock = clock
        self.heart_in_thread = heart_in_thread
        self.limit_seconds = limit_seconds
        self._inner = store
        self._seams = pytest.MonkeyPatch()

    @asynccontextmanager
    async def another(self, **options: Any) -> AsyncIterator["Bench"]:
        """One more app on the same database, as another process would have it."""
        bench = Bench(
            self._inner.sibling(),
            clock=self.clock,
            heart_in_thread=self.heart_in_thread,
            limit_seconds=self.limit_seconds,
            **options,
        )
        async with bench:
            yield bench

    async def __aenter__(self) -> Self:
        with self._seams.context() as seams:
            seams.setattr(streams.app, "open_store", lambda url, schema: self.store)
            await self.app.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.app.__aexit__(*error)

    async def work(self, stop: anyio.Event | None = None, *, until_idle: bool = False) -> bool:
        """Work until stopped; whether that was drained. The worker goes by the test's clock."""
        made = partial(Worker, clock=self.clock, heart_in_thread=self.heart_in_thread)
        with self._seams.context() as seams:
            seams.setattr(streams.app, "Worker", made)
            return await self.app._work(stop or anyio.Event(), until_idle=until_idle)

    async def work_until_idle(self) -> None:
        """Work until nothing is left to do."""
        with anyio.fail_after(self.limit_seconds):
            assert await self.work(until_idle=True)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[Job]:
        """A worker in the background while the block runs; at its end it is stopped."""
        job = Job()
        with anyio.fail_after(self.limit_seconds):
            async with anyio.create_task_group() as group:
                group.start_soon(job.run, self)
                yield job
                job.stop.set()

    async def shares(self, group: str = "billing", topic: str = "orders") -> list[int]:
        """How many partitions each owner has, in ascending order; those of nobody are left out."""
        owners = Counter(one.owner for one in (await self.status(group, topic)).partitions if one.owner is not None)
        return sorted(owners.values())

    async def shared(self, *shares: int) -> None:
        """Return when the owners have so many partitions each."""

        async def is_shared() -> bool:
            return await self.shares() == sorted(shares)

        await until(is_shared)

    async def status(self, group: str, topic: str = "orders") -> GroupStatus:
        """Where a group of a topic is; without partitions before it was made."""
        found = [one for one in await self._inner.groups() if (one.group, one.topic) == (group, topic)]
        return found[0] if found else GroupStatus(group, topic, 0, 0, ())

    async def partition(self, group: str, partition: int = 0, topic: str = "orders") -> PartitionStatus:
        """Where a group is in one partition."""
        return (await self.status(group, topic)).partitions[partition]

    async def published(self, topic: str) -> list[bytes]:
        """The payloads in a topic that has one partition."""
        row = await self._inner.topic(topic)
        assert row is not None
        (fetched,) = await self._inner.fetch([Cursor(row.id, 0, 0, (), 1_000_000, 1 << 30)])
        return [record.payload for record in fetched.records]

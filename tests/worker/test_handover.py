"""A partition that goes elsewhere: its running handlers end first, and nobody is charged for those that do not.

In virtual time. The first worker holds two partitions, each with a handler that runs until it is freed; a second worker
joins, and is due one of the two.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import islice
from typing import NamedTuple

import anyio
import pytest

from streams import Context, Retry
from tests.worker.bench import Bench, keys_in, until
from tests.worker.faults import EVER
from tests.worker.setting import in_virtual_time

pytestmark = in_virtual_time

SLOW = {next(keys_in(partition, 2)) for partition in (0, 1)}
QUICK = [key for partition in (0, 1) for key in islice(keys_in(partition, 2), 1, 11)]
QUICK_SECONDS = 0.1
LOOK_SECONDS = 0.25


class Start(NamedTuple):
    """A handler that has started."""

    worker: str
    partition: int
    key: str | None
    attempt: int
    at: float


class Scene:
    """Both workers, and what their handlers did."""

    def __init__(self, first: Bench, second: Bench) -> None:
        self.first = first
        self.second = second
        self.starts: list[Start] = []
        self.ends: list[tuple[str, str | None]] = []
        self.cancelled: list[float] = []
        self.began = anyio.current_time()
        self.slow_run = anyio.Event()
        self.free = anyio.Event()
        self.shielded = False
        self.raises: Exception | None = None
        self._declare(first, "first")
        self._declare(second, "second")

    def _declare(self, bench: Bench, worker: str) -> None:
        orders = bench.app.topic("orders", int, partitions=2)

        @orders.subscribe(group="billing", concurrency=3, retry=Retry(attempts=1))
        async def handle(number: int, ctx: Context) -> None:
            self.starts.append(Start(worker, ctx.partition, ctx.key, ctx.attempt, anyio.current_time() - self.began))
            if ctx.key not in SLOW:
                await anyio.sleep(QUICK_SECONDS)
            elif worker == "first":
                await self._run_until_freed()
            self.ends.append((worker, ctx.key))

    async def _run_until_freed(self) -> None:
        if sum(start.key in SLOW for start in self.starts) == 2:
            self.slow_run.set()
        try:
            with anyio.CancelScope(shield=self.shielded):
                await self.free.wait()
        except BaseException:
            self.cancelled.append(anyio.current_time() - self.began)
            if self.raises is not None:
                raise self.raises from None
            raise

    async def moving(self) -> int:
        """The partition that has moved to the second worker."""
        await self.first.shared(1, 1)
        (member,) = [row.member for (row,) in self.second.faults.calls["register"]]
        status = await self.first.status("billing")
        (found,) = [one.partition for one in status.partitions if one.owner == member]
        return found

    async def is_settled(self) -> bool:
        return (await self.first.status("billing")).lag == 0

    def slow_starts(self, partition: int) -> list[tuple[str, int]]:
        """Who has started the slow record of a partition, at which attempt."""
        return [(one.worker, one.attempt) for one in self.starts if one.partition == partition and one.key in SLOW]


@asynccontextmanager
async def scene(make_bench: Callable[..., Bench], *, quick: int = 0, shielded: bool = False) -> AsyncIterator[Scene]:
    """The first worker runs its slow handlers, and has so many quick records behind them; the second one joins."""
    async with make_bench(handover_seconds=60) as first, first.another() as second:
        found = Scene(first, second)
        found.shielded = shielded
        await first.app.publish_many("orders", ((key, 0) for key in SLOW))
        await first.app.publish_many("orders", ((key, n) for n in range(quick) for key in QUICK))
        async with first.at_work():
            await found.slow_run.wait()
            async with second.at_work():
                yield found
                found.free.set()
                await until(found.is_settled)


async def test_a_partition_moves_as_soon_as_its_running_handler_has_ended(make_bench: Callable[..., Bench]) -> None:
    async with scene(make_bench) as found:
        await anyio.sleep(30)
        assert await found.first.shares() == [2]
        found.free.set()
        freed = anyio.current_time()
        await found.moving()
        assert anyio.current_time() - freed < 0.5
    assert sorted(found.ends) == sorted(("first", key) for key in SLOW), "and what it settled is not run again"


async def test_other_keys_go_on_once_a_handler_has_run_for_a_second(make_bench: Callable[..., Bench]) -> None:
    async with scene(make_bench, quick=3) as found:
        await anyio.sleep(30)
        assert sorted(found.ends) == sorted(("first", key) for key in QUICK * 3)
        found.free.set()
        moving = await found.moving()
        times = [start.at for start in found.starts if start.partition == moving and start.key in QUICK]
        assert [at for at in times if LOOK_SECONDS < at < 1] == [], "in the first second it only waits"
        assert any(1 <= at < 1 + 2 * LOOK_SECONDS for at in times)


async def test_the_partition_that_stays_is_not_disturbed(make_bench: Callable[..., Bench]) -> None:
    async with scene(make_bench, quick=1) as found:
        await anyio.sleep(30)
        found.free.set()
        moving = await found.moving()
        times = [start.at for start in found.starts if start.partition != moving and start.key in QUICK]
        assert max(times) < 10 * QUICK_SECONDS + LOOK_SECONDS


async def test_records_that_do_not_end_do_not_keep_a_partition_from_moving(make_bench: Callable[..., Bench]) -> None:
    async with scene(make_bench, quick=60) as found:
        await anyio.sleep(5)
        found.free.set()
        freed = anyio.current_time()
        moving = await found.moving()
        assert anyio.current_time() - freed < 1
        assert any(start.worker == "first" and start.at > 1 for start in found.starts if start.partition == moving)
    assert len(found.ends) == 2 + 60 * len(QUICK), "and nothing is lost, or run twice"


async def test_at_the_deadline_what_still_runs_is_cancelled_and_nobody_is_charged(
    make_bench: Callable[..., Bench],
) -> None:
    async with scene(make_bench) as found:
        moving = await found.moving()
        await anyio.sleep(5)
        (cancelled,) = found.cancelled
        assert 60 <= cancelled < 60.5
        assert found.slow_starts(moving) == [("first", 1), ("second", 1)]
        assert found.slow_starts(1 - moving) == [("first", 1)]
        assert await found.first.app.admin.dead.list() == []


async def test_an_error_that_a_cancelled_handler_raises_is_not_charged(make_bench: Callable[..., Bench]) -> None:
    async with scene(make_bench) as found:
        found.raises = ValueError("cannot be cancelled politely")
        moving = await found.moving()
        await anyio.sleep(5)
        assert len(found.cancelled) == 1
        assert found.slow_starts(moving) == [("first", 1), ("second", 1)]
        assert await found.first.app.admin.dead.list() == [], "although its only attempt has raised"


async def test_a_handler_that_does_not_end_when_cancelled_keeps_its_partition(make_bench: Callable[..., Bench]) -> None:
    async with scene(make_bench, shielded=True) as found:
        await anyio.sleep(300)
        assert await found.first.shares() == [2]
        found.free.set()
        freed = anyio.current_time()
        moving = await found.moving()
        assert anyio.current_time() - freed < 1
        await anyio.sleep(5)
        assert found.slow_starts(moving) == [("first", 1)], "what it did in the end is settled"


async def test_a_worker_is_stopped_in_the_midst_of_a_handover(make_bench: Callable[..., Bench]) -> None:
    async with make_bench(handover_seconds=60) as first, first.another() as second:
        found = Scene(first, second)
        await first.app.publish_many("orders", ((key, 0) for key in SLOW))
        async with second_that_waits(found), first.at_work() as job:
            await found.slow_run.wait()
            await anyio.sleep(2)
            job.stop.set()
            await anyio.sleep(2)
            found.free.set()
            assert await job.finish()
    assert sorted(found.ends) == sorted(("first", key) for key in SLOW)


async def test_a_record_cancelled_by_a_handover_that_fails_is_handled_when_its_partition_stays(
    make_bench: Callable[..., Bench], caplog: pytest.LogCaptureFixture
) -> None:
    async with make_bench(handover_seconds=2) as first, first.another() as second:
        found = Scene(first, second)
        await first.app.publish_many("orders", ((key, 0) for key in SLOW))
        async with first.at_work():
            await found.slow_run.wait()
            first.faults.fail("release", error=ValueError("a bug"), times=EVER)
            async with second.at_work() as job:
                await until(lambda: "the handover failed" in caplog.text)
                await job.cancel()  # Whoever was to have the partition has gone.
            first.faults.heal()
            found.free.set()
            with anyio.fail_after(60):
                await until(found.is_settled)
    assert {worker for worker, _ in found.ends} == {"first"}
    assert {start.attempt for start in found.starts} == {1}, "and nobody was charged"


@asynccontextmanager
async def second_that_waits(found: Scene) -> AsyncIterator[None]:
    """The second worker, which joins when the slow handlers of the first one run."""

    async def join() -> None:
        await found.slow_run.wait()
        async with found.second.at_work():
            await over.wait()

    over = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(join)
        yield
        over.set()

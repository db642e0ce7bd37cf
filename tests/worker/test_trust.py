"""A member that cannot know any more that its leases hold stops itself, and joins again under a new id.

In virtual time, with a time to live of ten seconds: trust ends 6.67 s after the last good beat was sent.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from streams import Context, Retry
from streams.errors import PublishUncertain
from streams.stores.rows import MemberRow
from tests.worker.bench import Bench, until
from tests.worker.faults import EVER
from tests.worker.ledger import Ledger
from tests.worker.setting import in_virtual_time

pytestmark = in_virtual_time

TRUST_SECONDS = 20 / 3
BEAT_SECONDS = 10 / 3
BOUND_SECONDS = 10 / 6


def registered(bench: Bench) -> list[str]:
    """The ids under which the worker has tried to join."""
    return [row.member for (row,) in bench.faults.calls["register"] if isinstance(row, MemberRow)]


async def test_without_beats_handlers_are_cancelled_when_trust_ends_and_settle_nothing(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    invoices = bench.app.topic("invoices", int, partitions=1)
    ended: list[tuple[float, bool]] = []
    running = anyio.Event()

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        ctx.publish(invoices, ctx.key, number)
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append((anyio.current_time(), ctx.lease_lost))

    await orders.publish("key", 0)
    bench.faults.fail("beat", times=EVER)
    started = anyio.current_time()
    async with bench.at_work() as job:
        await running.wait()
        bench.faults.fail("register", times=EVER)
        await until(lambda: bool(ended))
        ((at, lost),) = ended
        assert TRUST_SECONDS <= at - started <= TRUST_SECONDS + 0.5
        assert lost
        assert (await bench.partition("billing")).position == 0
        assert await bench.published("invoices") == []
        assert bench.faults.calls["commit"] == []
        await job.cancel()


async def test_it_joins_again_under_a_new_id_declares_the_old_one_dead_and_goes_on(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    runs: list[tuple[int, int]] = []
    done = anyio.Event()

    @orders.subscribe(group="billing", retry=Retry(attempts=1))
    async def handle(number: int, ctx: Context) -> None:
        runs.append((ctx.epoch, ctx.attempt))
        if ctx.epoch == 1:
            await anyio.sleep_forever()
        done.set()

    await orders.publish("key", 0)
    bench.faults.fail("beat", times=EVER)
    started = anyio.current_time()
    async with bench.at_work():
        await until(lambda: len(registered(bench)) >= 2)
        bench.faults.heal()
        await done.wait()
        assert anyio.current_time() - started < TRUST_SECONDS + 1, "the old one was not waited for"
        first, second = registered(bench)
        assert first != second
        assert [row.member for row in await bench.store.members()] == [second]
    assert runs == [(1, 1), (2, 1)], "a lost lease charges no attempt"
    assert await bench.app.admin.dead.list() == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_registration_that_fails_while_joining_again_is_tried_under_another_id(
    bench: Bench, ledger: Ledger, after: bool
) -> None:
    orders = bench.app.topic("orders", int, partitions=8)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            pass

    async with bench.at_work():
        await bench.shared(8)
        bench.faults.fail("beat", times=EVER)
        bench.faults.fail("register", error=PublishUncertain("no answer") if after else None, after=after)
        await until(lambda: len(registered(bench)) >= 3)
        bench.faults.heal()
        joined = anyio.current_time()
        await orders.publish_many((f"key-{n}", 0) for n in range(100))
        await ledger.reaches(100)
        assert anyio.current_time() - joined < 1, "no member that is none holds a share"
        assert len(set(registered(bench))) == 3
        assert [row.member for row in await bench.store.members()] == [registered(bench)[-1]]


async def test_no_handler_starts_after_trust_has_ended(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    starts: list[tuple[int, float]] = []

    @orders.subscribe(group="billing", concurrency=3)
    async def handle(number: int, ctx: Context) -> None:
        starts.append((ctx.epoch, anyio.current_time()))
        with anyio.CancelScope(shield=True):  # So that not the cancellation, but the look at the clock ends it.
            await anyio.sleep(0.03)

    await orders.publish_many((f"key-{n % 100}", n) for n in range(1_500))
    bench.faults.fail("beat", times=EVER)
    started = anyio.current_time()
    async with bench.at_work():
        await until(lambda: len(registered(bench)) >= 2)
    last = max(at for epoch, at in starts if epoch == 1)
    assert TRUST_SECONDS - 0.05 < last - started < TRUST_SECONDS


class Jumping:
    """The test's clock, and what was slept by the whole machine."""

    def __init__(self) -> None:
        self.slept_seconds = 0.0

    def __call__(self) -> float:
        return anyio.current_time() + self.slept_seconds


async def test_no_handler_starts_after_a_sleep_of_the_machine(make_bench: Callable[..., Bench]) -> None:
    clock = Jumping()
    runs: list[tuple[int, int, int]] = []

    async with make_bench(clock=clock) as bench:
        orders = bench.app.topic("orders", int, partitions=1)

        @orders.subscribe(group="billing", retry=Retry(attempts=1))
        async def handle(number: int, ctx: Context) -> None:
            runs.append((number, ctx.epoch, ctx.attempt))
            if number == 2 and ctx.epoch == 1:
                clock.slept_seconds += 3_600

        await orders.publish_many(("key", n) for n in range(5))
        await bench.work_until_idle()
        assert runs[:3] == [(0, 1, 1), (1, 1, 1), (2, 1, 1)]
        assert runs[-2:] == [(3, 2, 1), (4, 2, 1)]
        assert {epoch for _, epoch, _ in runs[3:]} == {2}
        assert len(registered(bench)) == 2
        assert await bench.app.admin.dead.list() == []


async def test_trust_counts_from_when_a_beat_was_sent_not_from_its_answer(bench: Bench) -> None:
    """An answer that comes late, but within its bound, prolongs trust by less."""
    orders = bench.app.topic("orders", int, partitions=1)
    ended: list[float] = []

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(anyio.current_time())

    await orders.publish("key", 0)
    gate = bench.faults.hold("beat")
    async with bench.at_work() as job:
        await gate.reached.wait()
        sent = anyio.current_time()
        await anyio.sleep(BOUND_SECONDS - 0.1)
        gate.open()
        await anyio.lowlevel.checkpoint()
        bench.faults.hold("beat")
        bench.faults.fail("register", times=EVER)
        await until(lambda: bool(ended))
        assert TRUST_SECONDS - 0.01 <= ended[0] - sent <= TRUST_SECONDS + 0.5
        bench.faults.heal()
        await job.cancel()


async def test_a_beat_that_comes_through_before_trust_ends_saves_the_leases(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int, partitions=1)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            await anyio.sleep(30)

    await orders.publish_many(("key", n) for n in range(2))
    async with bench.at_work():
        for _ in range(6):
            bench.faults.fail("beat", times=8)  # At 1/3, and then every 1/30: the tenth would be too late.
            await anyio.sleep(10)
        await ledger.reaches(2)
    assert len(registered(bench)) == 1
    assert ledger.begun == [("key", 0), ("key", 1)]


async def test_a_beat_that_is_answered_just_after_trust_ended_lets_everything_go_on(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    starts: list[tuple[int, float]] = []
    stop = anyio.Event()

    @orders.subscribe(group="billing", concurrency=1)
    async def handle(number: int, ctx: Context) -> None:
        starts.append((ctx.epoch, anyio.current_time()))
        await anyio.sleep(0.01)
        if len(starts) == 3_000:
            stop.set()

    async def answer_late() -> None:
        await anyio.sleep(started + TRUST_SECONDS - 0.4 - anyio.current_time())
        gate = bench.faults.hold("beat")
        bench.faults.heal()
        await anyio.sleep(started + TRUST_SECONDS + 0.05 - anyio.current_time())  # The next pulse is at 6.75.
        gate.open()

    await orders.publish_many((f"key-{n}", n) for n in range(3_000))
    bench.faults.fail("beat", times=EVER)
    started = anyio.current_time()
    async with anyio.create_task_group() as group:
        group.start_soon(answer_late)
        assert await bench.work(stop)
    assert {epoch for epoch, _ in starts} == {1}
    times = [at - started for _, at in starts]
    assert [at for at in times if TRUST_SECONDS < at < TRUST_SECONDS + 0.05] == [], "it stood still meanwhile"
    assert max(times) < 31


async def test_a_refused_beat_ends_trust_at_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    epochs: list[int] = []
    again = anyio.Event()

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        epochs.append(ctx.epoch)
        if len(epochs) == 1:
            await anyio.sleep_forever()
        again.set()

    await orders.publish("key", 0)
    async with bench.at_work():
        await bench.shared(1)
        (me,) = await bench.store.members()
        await bench.store.register(MemberRow("judge", "elsewhere", 1, (), 10_000_000), replaces=me.member)
        with anyio.fail_after(BEAT_SECONDS + 0.5):
            await again.wait()
    assert epochs == [1, 2]
    assert "its lease has expired; it joins again under a new id" in caplog.text


@asynccontextmanager
async def two_workers(bench: Bench, declare: Callable[[Bench], Any]) -> AsyncIterator[Bench]:
    """The bench at work with four of eight partitions; the other one, that has the other four, is handed out."""
    declare(bench)
    async with bench.another() as other:
        declare(other)
        async with bench.at_work(), other.at_work() as job:
            await bench.shared(4, 4)
            yield other
            other.faults.heal()
            await job.cancel()


async def test_a_worker_that_is_cut_off_is_replaced_within_its_time_to_live_and_a_second(
    bench: Bench, ledger: Ledger
) -> None:
    def declare(worker: Bench) -> None:
        orders = worker.app.topic("orders", int, partitions=8)

        @orders.subscribe(group="billing")
        async def handle(number: int, ctx: Context) -> None:
            with ledger.record(ctx, number):
                await anyio.sleep(0.5)

    async with two_workers(bench, declare) as other:
        await bench.app.publish_many("orders", ((f"key-{k}", n) for n in range(60) for k in range(20)))
        await anyio.sleep(3)
        cut = anyio.current_time()
        verbs = ["view", "acquire", "fetch", "commit", "release", "beat", "generation", "leave", "register"]
        other.faults.fail(*verbs, times=EVER)
        await bench.shared(8)
        assert anyio.current_time() - cut < 10 + 1
        await until(lambda: is_settled(bench))
    assert not ledger.violations, "never two handlers of a key, and none before its predecessor"
    assert {(key, number) for key, number in ledger.ended} == {(f"key-{k}", n) for k in range(20) for n in range(60)}


async def is_settled(bench: Bench) -> bool:
    status = await bench.status("billing")
    return status.lag == 0 and sum(one.position for one in status.partitions) > 0


async def test_a_handler_that_ignores_its_cancellation_keeps_its_key_closed_while_the_partition_goes_on(
    bench: Bench, ledger: Ledger
) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    epochs: dict[tuple[str | None, int], list[int]] = {}
    stuck = anyio.Event()
    free = anyio.Event()

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        epochs.setdefault((ctx.key, number), []).append(ctx.epoch)
        with ledger.record(ctx, number):
            if ctx.key == "stuck" and ctx.epoch == 1:
                stuck.set()
                with anyio.CancelScope(shield=True):
                    await free.wait()
                assert ctx.lease_lost

    await orders.publish("stuck", 0)
    async with bench.at_work():
        await stuck.wait()
        bench.faults.fail("beat", times=EVER)
        await until(lambda: len(registered(bench)) >= 2)
        bench.faults.heal()
        await orders.publish_many((key, n) for n in range(3) for key in ("a", "b"))
        await orders.publish("stuck", 1)
        await ledger.reaches(6)  # The partition goes on under its new epoch,
        await anyio.sleep(60)
        assert len(ledger.ended) == 6
        assert [key for key, _ in ledger.begun].count("stuck") == 1  # but the key is closed,
        free.set()
        await ledger.reaches(9)  # until its handler has ended: then its records run, the dropped one first.
    assert not ledger.violations
    assert epochs["stuck", 0] == [1, 2]
    assert epochs["stuck", 1] == epochs["a", 0] == [2]

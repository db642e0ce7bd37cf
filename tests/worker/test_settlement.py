"""Settlements go to the store in groups; each is applied once, under its fence, or not at all."""

import logging
from itertools import pairwise

import anyio
import pytest

from partition import Lease
from streams import Context, Retry
from streams.errors import PublishUncertain, StoreUnavailable
from streams.stores.rows import MemberRow, Settlement
from tests.worker.bench import Bench, until
from tests.worker.faults import EVER
from tests.worker.ledger import Ledger
from tests.worker.setting import MEMORY, SQLITE, VIRTUAL, in_settings, in_virtual_time


def commits(bench: Bench) -> list[list[Settlement]]:
    """What each commit was asked to apply."""
    return [arguments[0] for arguments in bench.faults.calls["commit"]]


async def test_one_commit_settles_many_records_of_many_partitions(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=8)

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        pass

    await orders.publish_many((f"key-{n}", n) for n in range(5_000))
    await bench.work_until_idle()
    assert len(commits(bench)) < 50
    assert max(len(group) for group in commits(bench)) > 1
    assert sum(one.progress.records for group in commits(bench) for one in group) == 5_000


@in_virtual_time
async def test_commits_start_at_least_twenty_milliseconds_apart(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    starts: list[float] = []
    bench.faults.on_call = lambda verb: starts.append(anyio.current_time()) if verb == "commit" else None

    @orders.subscribe(group="billing", concurrency=2)
    async def handle(number: int) -> None:
        await anyio.sleep(0.001)

    await orders.publish_many((f"key-{n}", n) for n in range(2_000))
    await bench.work_until_idle()
    gaps = [after - before for before, after in pairwise(starts)]
    assert len(gaps) >= 45, "the records took a second"
    assert min(gaps) > 0.0199


@in_virtual_time
async def test_a_settled_record_is_committed_within_twenty_milliseconds(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    handled = anyio.Event()

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        handled.set()

    async def is_committed() -> bool:
        return (await bench.partition("billing")).position == 1

    async with bench.at_work():
        await bench.shared(1)
        await orders.publish("key", 0)
        await handled.wait()
        ended = anyio.current_time()
        await until(is_committed)
        assert anyio.current_time() - ended < 0.03


@pytest.mark.parametrize("error", [PublishUncertain("no answer"), StoreUnavailable("no answer")], ids=repr)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@in_settings(SQLITE, VIRTUAL)
async def test_a_commit_without_an_answer_is_tried_again_unchanged_and_applied_once(
    bench: Bench, error: Exception, after: bool, caplog: pytest.LogCaptureFixture
) -> None:
    orders = bench.app.topic("orders", int, partitions=2)
    invoices = bench.app.topic("invoices", int, partitions=1)
    handled: list[int] = []

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        handled.append(number)
        ctx.publish(invoices, ctx.key, number)

    bench.faults.fail("commit", error=error, after=after, times=3)
    await orders.publish_many((f"key-{n}", n) for n in range(10))

    async def more() -> None:  # These are settled while the first group has no answer yet.
        await until(lambda: bench.faults.failed >= 2)
        await orders.publish_many((f"key-{n}", n) for n in range(10, 20))

    async with anyio.create_task_group() as group:
        group.start_soon(more)
        await bench.work_until_idle()
        await bench.work_until_idle()
    tries = commits(bench)
    assert tries[0] == tries[1] == tries[2] == tries[3]
    assert not any(one in tries[0] for group_ in tries[4:] for one in group_)
    assert sorted(handled) == list(range(20))
    assert sorted(map(int, await bench.published("invoices"))) == list(range(20))
    said = [entry.getMessage() for entry in caplog.records if "settlements" in entry.getMessage()]
    assert said == [
        f"settlements cannot be committed, trying again: {error}",
        "settlements cannot be committed: over after 3 failures",
    ]


@in_virtual_time
async def test_handlers_go_on_while_the_store_takes_no_settlements_up_to_a_bound(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int, partitions=1)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            pass

    bench.faults.fail("commit", times=EVER)
    await orders.publish_many((f"key-{n}", 0) for n in range(10_000))
    async with bench.at_work():
        await ledger.reaches(4_000)
        await anyio.sleep(3)
        assert 4_000 <= len(ledger.ended) < 8_000, "what nobody settles is not read without end"
        bench.faults.heal()
        await ledger.reaches(10_000)
    assert len(ledger.ended) == 10_000


async def lose_the_leases(bench: Bench) -> None:
    """Let a thief take all partitions of the group billing behind the worker's back."""
    status = await bench.status("billing")
    leases = [Lease("billing", "orders", one.partition, one.owner, one.epoch) for one in status.partitions]
    await bench.store.release(leases)
    await bench.store.register(MemberRow("thief", "elsewhere", 1, (), 3_600_000_000))
    wanted = [("billing", "orders", lease.partition) for lease in leases]
    assert len(await bench.store.acquire("thief", wanted)) == len(wanted)


@in_settings(MEMORY, SQLITE, VIRTUAL)
async def test_a_refused_fence_drops_what_was_in_flight_and_says_so_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    invoices = bench.app.topic("invoices", int, partitions=1)
    runs: list[tuple[int, int, int]] = []
    running, go_on = anyio.Event(), anyio.Event()

    @orders.subscribe(group="billing", retry=Retry(attempts=1))
    async def handle(number: int, ctx: Context) -> None:
        runs.append((number, ctx.attempt, ctx.epoch))
        ctx.publish(invoices, ctx.key, number)
        running.set()
        await go_on.wait()

    async def is_dropped() -> bool:
        return "the lease has passed on" in caplog.text

    async def is_settled() -> bool:
        return (await bench.status("billing")).lag == 0

    await orders.publish_many((f"key-{n}", n) for n in range(3))
    async with bench.at_work():
        await running.wait()
        gates = [bench.faults.hold(verb) for verb in ("view", "generation")]  # So it learns of it by the fence alone.
        await lose_the_leases(bench)
        go_on.set()
        await until(is_dropped)
        assert (await bench.partition("billing")).position == 0
        assert await bench.published("invoices") == []
        assert await bench.app.admin.dead.list() == []
        assert caplog.text.count("the lease has passed on") == 1
        await bench.store.leave("thief")
        for gate in gates:
            gate.open()
        await until(is_settled)
    assert sorted(runs) == [(number, 1, epoch) for number in range(3) for epoch in (1, 3)]
    assert sorted(await bench.published("invoices")) == [b"0", b"1", b"2"]
    assert await bench.app.admin.dead.list() == []


@in_virtual_time
async def test_a_lease_seen_to_have_passed_on_cancels_its_handlers_at_once(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    invoices = bench.app.topic("invoices", int, partitions=1)
    running = anyio.Event()
    lost: list[bool] = []
    refused: list[Exception] = []

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            lost.append(ctx.lease_lost)
            try:
                ctx.publish(invoices, ctx.key, number)
            except Exception as error:
                refused.append(error)

    await orders.publish("key", 0)
    async with bench.at_work():
        await running.wait()
        await lose_the_leases(bench)
        started = anyio.current_time()
        await until(lambda: bool(lost))
        assert anyio.current_time() - started < 0.2
    assert lost == [True]
    assert [type(error).__name__ for error in refused] == ["LeaseLost"]


@in_virtual_time
async def test_a_loss_that_is_seen_twice_is_said_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    orders = bench.app.topic("orders", int, partitions=1)

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        pass

    await orders.publish("key", 0)
    gate = bench.faults.hold("commit")
    async with bench.at_work():
        await gate.reached.wait()
        await lose_the_leases(bench)
        await until(lambda: "the lease has passed on" in caplog.text)
        gate.open()
        await anyio.sleep(1)
    assert caplog.text.count("the lease has passed on") == 1


async def test_what_was_settled_before_a_cancellation_is_committed_while_handing_back(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    handled: list[int] = []
    second = anyio.Event()

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        handled.append(number)
        if number == 1:
            second.set()

    await orders.publish("key-0", 0)
    bench.faults.fail("commit", times=EVER)
    async with bench.at_work() as job:
        await until(lambda: bool(bench.faults.failed))
        await orders.publish("key-1", 1)  # Settled while the settlement of the first is on its way.
        await second.wait()
        bench.faults.heal()
        await job.cancel()
    assert (await bench.partition("billing")).position == 2
    await bench.work_until_idle()
    assert handled == [0, 1]


async def test_what_was_on_its_way_at_a_cancellation_is_committed_with_all_its_effects(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    invoices = bench.app.topic("invoices", int, partitions=1)
    second = anyio.Event()

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        ctx.publish(invoices, ctx.key, number)
        if number == 1:
            second.set()

    await orders.publish("key-0", 0)
    bench.faults.fail("commit", times=EVER)
    async with bench.at_work() as job:
        await until(lambda: bool(bench.faults.failed))
        await orders.publish("key-1", 1)  # Settled while the settlement of the first is on its way.
        await second.wait()
        bench.faults.heal()
        await job.cancel()
    await bench.work_until_idle()
    assert await bench.published("invoices") == [b"0", b"1"]


async def test_a_handler_that_was_cancelled_settles_nothing(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    invoices = bench.app.topic("invoices", int, partitions=1)
    running = anyio.Event()
    attempts: list[int] = []

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        ctx.publish(invoices, ctx.key, number)
        running.set()
        if len(attempts) == 1:
            await anyio.sleep_forever()

    await orders.publish("key", 0)
    async with bench.at_work() as job:
        await running.wait()
        await job.cancel()
    assert (await bench.partition("billing")).position == 0
    assert await bench.published("invoices") == []
    await bench.work_until_idle()
    assert attempts == [1, 1]
    assert await bench.published("invoices") == [b"0"]


async def test_the_settler_says_nothing_while_all_is_well(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    orders = bench.app.topic("orders", int)

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        pass

    await orders.publish_many((f"key-{n}", n) for n in range(100))
    await bench.work_until_idle()
    assert [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.WARNING] == []

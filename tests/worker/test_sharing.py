"""Several workers share the partitions of a topic, and hand them over when one joins or leaves."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

import anyio
import pytest

from streams import Context
from streams.stores.rows import MemberRow, Settlement
from tests.worker.bench import Bench, Job, keys_in, until
from tests.worker.ledger import Ledger
from tests.worker.setting import MEMORY, SQLITE, TRIO, in_settings, in_virtual_time


def declare(bench: Bench, ledger: Ledger, *, partitions: int = 8, concurrency: int = 64) -> None:
    """The app that all workers of a test run: every handler writes into the one ledger."""
    orders = bench.app.topic("orders", int, partitions=partitions)

    @orders.subscribe(group="billing", concurrency=concurrency)
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(("workers", "shares"), [(1, [8]), (2, [4, 4]), (3, [2, 3, 3])])
@in_settings(MEMORY, SQLITE, TRIO)
async def test_workers_share_the_partitions_within_one(
    bench: Bench, ledger: Ledger, workers: int, shares: list[int]
) -> None:
    declare(bench, ledger)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(bench.at_work())
        for _ in range(workers - 1):
            other = await stack.enter_async_context(bench.another())
            declare(other, ledger)
            await stack.enter_async_context(other.at_work())
        await bench.shared(*shares)


@in_virtual_time
async def test_a_worker_that_joins_has_its_share_within_a_second(bench: Bench, ledger: Ledger) -> None:
    declare(bench, ledger)
    async with bench.another() as other, bench.at_work():
        declare(other, ledger)
        await bench.shared(8)
        joined = anyio.current_time()
        async with other.at_work():
            await bench.shared(4, 4)
        assert anyio.current_time() - joined < 1


@in_virtual_time
async def test_the_partitions_of_a_worker_that_stops_start_elsewhere_at_once(bench: Bench, ledger: Ledger) -> None:
    declare(bench, ledger)
    async with bench.another() as other, bench.at_work():
        declare(other, ledger)
        async with other.at_work() as job:
            await bench.shared(4, 4)
            stopped = anyio.current_time()
            assert await job.finish()
            await bench.shared(8)
            assert anyio.current_time() - stopped < 0.5


@in_virtual_time
async def test_the_partitions_of_a_worker_that_is_cancelled_start_elsewhere_at_once(
    bench: Bench, ledger: Ledger
) -> None:
    declare(bench, ledger)
    async with bench.another() as other, bench.at_work():
        declare(other, ledger)
        async with other.at_work() as job:
            await bench.shared(4, 4)
            cancelled = anyio.current_time()
            await job.cancel()
            await bench.shared(8)
            assert anyio.current_time() - cancelled < 0.5


@in_settings(MEMORY, SQLITE, TRIO)
async def test_joining_and_leaving_loses_repeats_and_reorders_nothing(bench: Bench, ledger: Ledger) -> None:
    keys, rounds = 40, 60
    positions: dict[int, list[int]] = {}

    def note(worker: Bench, verb: str) -> None:
        if verb == "commit":
            settlements: list[Settlement] = worker.faults.calls["commit"][-1][0]
            for one in settlements:
                positions.setdefault(one.lease.partition, []).append(one.progress.position)

    async def publish() -> None:
        for number in range(rounds):
            await bench.app.publish_many("orders", ((f"key-{k}", number) for k in range(keys)))

    declare(bench, ledger)
    async with bench.another() as second, bench.another() as third:
        for worker in (bench, second, third):
            worker.faults.on_call = partial(note, worker)
        declare(second, ledger)
        declare(third, ledger)
        async with anyio.create_task_group() as group, bench.at_work():
            group.start_soon(publish)
            async with second.at_work():
                await bench.shared(4, 4)
                async with third.at_work():
                    await bench.shared(2, 3, 3)
                await bench.shared(4, 4)
            await bench.shared(8)
            await ledger.reaches(keys * rounds)
    assert not ledger.violations
    assert len(ledger.ended) == keys * rounds, "nothing was handled twice"
    assert all(ledger.of(f"key-{k}") == list(range(rounds)) for k in range(keys))
    assert all(found == sorted(found) for found in positions.values())
    assert (await bench.status("billing")).lag == 0


@in_settings(MEMORY, SQLITE, TRIO)
async def test_what_is_settled_above_a_stuck_record_is_not_handled_again(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    handled: list[int] = []
    stuck = 0
    free = anyio.Event()

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        nonlocal stuck
        if number % 10 == 5:
            stuck += 1
            await free.wait()
        handled.append(number)

    await orders.publish_many((f"key-{number}", number) for number in range(100))
    for owner in (1, 2, 3):  # The later ones know no more than what the store tells them.

        async def only_the_stuck_are_left(owner: int = owner) -> bool:
            return stuck == 10 * owner and (await bench.status("billing")).lag == 10

        async with bench.at_work() as job:
            await until(only_the_stuck_are_left)
            await job.cancel()
        assert sorted(handled) == [number for number in range(100) if number % 10 != 5]
        assert (await bench.partition("billing")).position == 5

    free.set()
    await bench.work_until_idle()
    assert sorted(handled) == list(range(100))


async def test_workers_that_serve_different_groups_own_every_partition_of_each(bench: Bench, ledger: Ledger) -> None:
    declare(bench, ledger)
    async with bench.another() as other:
        orders = other.app.topic("orders", int)

        async def handle(number: int, ctx: Context) -> None:
            raise AssertionError("nothing is published")

        orders.subscribe(group="billing")(handle)
        orders.subscribe(group="audit")(handle)
        async with bench.at_work(), other.at_work():
            await bench.shared(4, 4)

            async def all_of_audit_is_owned() -> bool:
                return await bench.shares("audit") == [8]

            await until(all_of_audit_is_owned)


@in_virtual_time
async def test_a_crowd_of_workers_gets_every_partition_owned_and_lets_go_of_none(bench: Bench, ledger: Ledger) -> None:
    """More workers than partitions: some have none, and are there when others leave."""
    declare(bench, ledger, partitions=4)
    async with AsyncExitStack() as stack:
        jobs: list[Job] = []
        await stack.enter_async_context(bench.at_work())
        for _ in range(6):
            other = await stack.enter_async_context(bench.another())
            declare(other, ledger, partitions=4)
            jobs.append(await stack.enter_async_context(other.at_work()))
        await bench.shared(1, 1, 1, 1)
        for job in jobs:
            assert await job.finish()
        await bench.shared(4)


@in_virtual_time
@pytest.mark.parametrize("busy", [0, 1])
async def test_what_moves_is_what_has_no_running_handler(make_bench: Callable[..., Bench], busy: int) -> None:
    running, free = anyio.Event(), anyio.Event()
    async with make_bench(handover_seconds=60) as first, first.another() as second:
        for bench in (first, second):
            orders = bench.app.topic("orders", int, partitions=2)

            @orders.subscribe(group="billing")
            async def handle(number: int) -> None:
                running.set()
                await free.wait()

        await first.app.publish("orders", next(keys_in(busy, 2)), 0)
        async with first.at_work():
            await running.wait()
            async with second.at_work():
                joined = anyio.current_time()
                await first.shared(1, 1)
                assert anyio.current_time() - joined < 5, "nobody waits for the handler"
                ((row,),) = first.faults.calls["register"]
                held = [one.partition for one in (await first.status("billing")).partitions if one.owner == row.member]
                free.set()
    assert held == [busy]


@in_virtual_time
async def test_a_member_that_dies_without_having_held_anything_is_declared_dead_too(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        pass

    async def is_forgotten() -> bool:
        view = await bench.store.view([("billing", "orders")])
        return "ghost" not in [row.member for row in view.members]

    async with bench.at_work():
        await bench.shared(1)
        await bench.store.register(MemberRow("ghost", "host", 1, (), 2_000_000))
        assert not await is_forgotten()
        with anyio.fail_after(30):
            await until(is_forgotten)

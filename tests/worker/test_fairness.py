"""Nobody is starved: not by a hot key, a hot partition, a slow record, or handlers that never wait."""

from collections.abc import Callable
from itertools import islice

import anyio
import pytest

from streams import Context
from tests.worker.bench import Bench, keys_in
from tests.worker.setting import MEMORY, TRIO, in_settings, in_virtual_time


@in_virtual_time
async def test_a_hot_key_takes_turns_with_the_others(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    handled: list[str | None] = []

    @orders.subscribe(group="billing", concurrency=1)
    async def handle(number: int, ctx: Context) -> None:
        handled.append(ctx.key)
        await anyio.sleep(0.001)

    await orders.publish_many(("hot" if n % 2 else f"key-{n}", n) for n in range(1_000))
    await bench.work_until_idle()
    last = max(place for place, key in enumerate(handled) if key != "hot")
    assert last < 600, "half of the records are of the hot key, and the others did not wait for them"


async def test_a_hot_key_whose_record_is_slow_holds_nobody_else(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    others = 0
    all_others = anyio.Event()

    @orders.subscribe(group="billing", concurrency=2)
    async def handle(number: int, ctx: Context) -> None:
        nonlocal others
        if ctx.key == "hot":
            await all_others.wait()
            return
        others += 1
        if others == 500:
            all_others.set()

    await orders.publish_many(("hot" if n % 2 else f"key-{n}", n) for n in range(1_000))
    await bench.work_until_idle()
    assert others == 500


@pytest.mark.parametrize("hot", [0, 1])
@in_virtual_time
async def test_a_hot_partition_takes_turns_with_the_others(bench: Bench, hot: int) -> None:
    orders = bench.app.topic("orders", int, partitions=2)
    handled: list[int] = []

    @orders.subscribe(group="billing", concurrency=1)
    async def handle(number: int, ctx: Context) -> None:
        handled.append(ctx.partition)
        await anyio.sleep(0.001)

    await orders.publish_many((key, 0) for key in islice(keys_in(hot, 2), 1_000))
    await orders.publish_many((key, 0) for key in islice(keys_in(1 - hot, 2), 20))
    await bench.work_until_idle()
    assert [place for place, partition in enumerate(handled) if partition != hot][-1] < 50


async def test_a_slow_handler_of_one_subscription_takes_no_runner_of_another(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    done = anyio.Event()

    @orders.subscribe(group="slow", concurrency=1)
    async def slow(number: int) -> None:
        await done.wait()

    @orders.subscribe(group="fast", concurrency=1)
    async def fast(number: int) -> None:
        if number == 99:
            done.set()

    await orders.publish_many(("key", n) for n in range(100))
    await bench.work_until_idle()
    assert (await bench.status("slow")).lag == (await bench.status("fast")).lag == 0


@in_settings(MEMORY, TRIO)
async def test_handlers_that_never_wait_let_the_event_loop_turn(make_bench: Callable[..., Bench]) -> None:
    """The worker's clock is counted up by each look at it, so that a turn is a number of records."""
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return looks * 0.0001

    handled_between = [0]
    stop = anyio.Event()

    async with make_bench(clock=clock, heart_in_thread=False, lease_seconds=86_400, stall_seconds=86_400) as bench:
        orders = bench.app.topic("orders", int, partitions=1)

        @orders.subscribe(group="billing")
        async def handle(number: int) -> None:
            handled_between[-1] += 1
            if sum(handled_between) == 2_000:
                stop.set()

        async def turn() -> None:
            while True:
                handled_between.append(0)
                await anyio.lowlevel.checkpoint()

        await orders.publish_many(("one-key" if n % 2 else None, n) for n in range(2_000))
        with anyio.fail_after(bench.limit_seconds):
            async with anyio.create_task_group() as group:
                group.start_soon(turn)
                await bench.work(stop)
                group.cancel_scope.cancel()
    assert sum(handled_between) == 2_000
    assert max(handled_between) < 100, "a turn of two milliseconds is about twenty looks at this clock"


@in_virtual_time
async def test_records_without_a_key_are_not_starved_by_keyed_ones(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    handled: list[str | None] = []

    @orders.subscribe(group="billing", concurrency=1)
    async def handle(number: int, ctx: Context) -> None:
        handled.append(ctx.key)
        await anyio.sleep(0.001)

    await orders.publish_many(("abc"[n % 3] if n < 300 else None, n) for n in range(310))
    await bench.work_until_idle()
    assert [place for place, key in enumerate(handled) if key is None][-1] < 60

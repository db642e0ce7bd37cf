"""While a worker drains it starts nothing, and what it has released is at work elsewhere already."""

from collections.abc import Callable

import anyio

from tests.worker.bench import Bench, keys_in, until
from tests.worker.setting import in_virtual_time


@in_virtual_time
async def test_a_stopping_worker_starts_nothing_more_however_long_a_handler_has_run(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    starts: list[int] = []
    ends = [anyio.Event() for _ in range(3)]

    @orders.subscribe(group="billing", concurrency=2)
    async def handle(number: int) -> None:
        starts.append(number)
        await ends[number].wait()

    await orders.publish_many((f"key-{n}", n) for n in range(3))
    async with bench.at_work() as job:
        await until(lambda: len(starts) == 2)
        job.stop.set()
        await anyio.sleep(5)
        ends[starts[0]].set()  # Its runner is free while the other one's handler goes on.
        await anyio.sleep(5)
        assert len(starts) == 2
        ends[starts[1]].set()
        assert await job.finish()
    assert len(starts) == 2


@in_virtual_time
async def test_what_a_stopping_worker_has_released_starts_elsewhere_while_it_still_drains(
    make_bench: Callable[..., Bench],
) -> None:
    running, free = anyio.Event(), anyio.Event()
    async with make_bench() as first, first.another() as second:
        for bench in (first, second):
            orders = bench.app.topic("orders", int, partitions=4)

            @orders.subscribe(group="billing")
            async def handle(number: int) -> None:
                running.set()
                await free.wait()

        async with first.at_work() as job, second.at_work():
            await first.shared(2, 2)
            ((row,),) = first.faults.calls["register"]
            held = [one.partition for one in (await first.status("billing")).partitions if one.owner == row.member]
            await first.app.publish("orders", next(keys_in(held[0], 4)), 0)
            await running.wait()
            job.stop.set()
            stopped = anyio.current_time()
            await first.shared(1, 3)
            assert anyio.current_time() - stopped < 1
            free.set()


@in_virtual_time
async def test_what_is_done_meanwhile_is_released_together(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=256)

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        pass

    async with bench.at_work() as job:
        await bench.shared(256)
        assert await job.finish()
    released = [leases for (leases,) in bench.faults.calls["release"]]
    assert sum(map(len, released)) == 256
    assert len(released) <= 3


@in_virtual_time
async def test_a_release_that_fails_is_made_again_with_all_that_waits_for_it(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=16)

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        pass

    async with bench.at_work() as job:
        await bench.shared(16)
        bench.faults.fail("release", times=3)
        assert await job.finish()
    assert await bench.shares() == []
    tries = [len(leases) for (leases,) in bench.faults.calls["release"]]
    assert tries == [16] * 4

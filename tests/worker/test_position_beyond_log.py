"""A position beyond all that the log has ever numbered stops its own partition, and nothing else."""

import anyio
import pytest

from partition import Progress
from streams import Context
from streams.stores.rows import MemberRow, Settlement
from tests.conformance.samples import APPLIED
from tests.worker.bench import Bench, keys_in, until
from tests.worker.setting import SQLITE, VIRTUAL, in_settings


async def put_the_position_beyond_the_log(bench: Bench, partition: int) -> None:
    """As when the log was restored from an older copy."""
    store = bench.store
    await store.ensure_group("billing", "orders", "earliest")
    await store.register(MemberRow("culprit", "elsewhere", 1, (), 60_000_000))
    (held,) = await store.acquire("culprit", [("billing", "orders", partition)])
    assert await store.commit([Settlement(held.lease, Progress(1, 100, (), True, 0))]) == [APPLIED]
    await store.leave("culprit")


async def let_it_look(bench: Bench, group: str) -> None:
    """Let the worker look at its leases again: a new group gives it a reason."""
    looks = len(bench.faults.calls["view"])
    await bench.store.ensure_group(group, "orders", "earliest")
    await until(lambda: len(bench.faults.calls["view"]) > looks)


@in_settings(VIRTUAL, SQLITE)
async def test_it_stops_only_its_own_partition_and_is_said_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    orders = bench.app.topic("orders", int, partitions=2)
    handled: list[tuple[int, int]] = []
    done = anyio.Event()

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        handled.append((ctx.partition, number))
        if number == 5:
            done.set()

    keys = [next(keys_in(partition, 2)) for partition in (0, 1)]
    await orders.publish_many((key, n) for n in range(5) for key in keys)
    await put_the_position_beyond_the_log(bench, 0)
    async with bench.at_work() as job:
        await bench.shared(2)
        for other in ("one", "two", "three"):
            await let_it_look(bench, other)
        await orders.publish_many((key, 5) for key in keys)
        await done.wait()
        assert (await bench.partition("billing", 0)).epoch == 2, "it is not taken again and again"
        assert await job.finish()
    assert handled == [(1, n) for n in range(6)]
    assert (await bench.partition("billing", 0)).position == 100
    (said,) = [entry for entry in caplog.records if entry.levelname == "ERROR"]
    assert said.getMessage() == (
        "group 'billing' is at 100 in 'orders' partition 0, but the log ends at 5: it was restored from an older copy "
        "or cut by hand; the partition stays stopped until its position is repaired"
    )


@in_settings(VIRTUAL, SQLITE)
async def test_a_worker_started_after_the_log_has_caught_up_goes_on(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    handled: list[int] = []

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        handled.append(number)

    await orders.publish("key", 0)
    await put_the_position_beyond_the_log(bench, 0)
    async with bench.at_work() as job:
        await bench.shared(1)
        assert await job.finish()
    await orders.publish_many(("key", n) for n in range(1, 105))
    await bench.work_until_idle()
    assert handled == [100, 101, 102, 103, 104]

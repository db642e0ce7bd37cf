"""Within a group the records of a key run one at a time and in the order of their offsets; nothing else waits."""

from itertools import islice

import anyio
import pytest

from streams import Context, Retry
from tests.worker.bench import Bench, at_once, keys_in
from tests.worker.ledger import Ledger
from tests.worker.setting import MEMORY, SQLITE, in_all, in_settings


@in_settings(MEMORY, SQLITE)
async def test_the_records_of_a_key_run_in_order_while_thousands_of_keys_run_side_by_side(
    bench: Bench, ledger: Ledger
) -> None:
    keys, rounds = 2_000, 2
    orders = bench.app.topic("orders", int)
    everyone = anyio.Event()

    @orders.subscribe(group="billing", concurrency=keys)
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            if len(ledger.begun) == keys:
                everyone.set()
            await everyone.wait()  # It is set when the first records of all keys are with their handlers.

    await orders.publish_many((f"key-{k}", n) for n in range(rounds) for k in range(keys))
    await bench.work_until_idle()
    assert ledger.most_at_once == keys
    assert not ledger.violations
    assert all(ledger.of(f"key-{k}") == list(range(rounds)) for k in range(keys))


async def test_no_more_records_run_at_once_than_the_concurrency_says(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int)

    @orders.subscribe(group="billing", concurrency=7)
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            for _ in range(3):
                await anyio.lowlevel.checkpoint()

    await orders.publish_many((f"key-{k}", 0) for k in range(200))
    await bench.work_until_idle()
    assert len(ledger.ended) == 200
    assert ledger.most_at_once == 7


@in_all
async def test_order_partition_runs_one_record_of_each_partition_at_a_time(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int, partitions=2)
    running: dict[int, int] = {0: 0, 1: 0}
    offsets: dict[int, list[int]] = {0: [], 1: []}
    both = anyio.Event()

    @orders.subscribe(group="billing", order="partition")
    async def handle(number: int, ctx: Context) -> None:
        running[ctx.partition] += 1
        assert running[ctx.partition] == 1
        if running == {0: 1, 1: 1}:
            both.set()
        await both.wait()
        await anyio.lowlevel.checkpoint()
        running[ctx.partition] -= 1
        offsets[ctx.partition].append(ctx.offset)

    await orders.publish_many((None if k % 2 else f"key-{k}", k) for k in range(100))
    await bench.work_until_idle()
    assert all(found == list(range(1, len(found) + 1)) for found in offsets.values())
    assert sum(map(len, offsets.values())) == 100


async def test_order_partition_retries_in_place_and_only_its_partition_waits(bench: Bench) -> None:
    orders = bench.app.topic("orders", str, partitions=2)
    seen: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    other_partition_done = anyio.Event()

    @orders.subscribe(group="billing", order="partition", retry=Retry(wait=at_once))
    async def handle(payload: str, ctx: Context) -> None:
        seen[ctx.partition].append((ctx.offset, ctx.attempt))
        if ctx.partition == 1 and ctx.offset == 10:
            other_partition_done.set()
        if ctx.partition == 0 and ctx.offset == 1 and ctx.attempt < 4:
            if ctx.attempt == 3:
                await other_partition_done.wait()
            raise ValueError("not yet")

    for partition in (0, 1):
        await orders.publish_many((key, "payload") for key in islice(keys_in(partition, 2), 10))
    await bench.work_until_idle()
    assert seen[0] == [(1, 1), (1, 2), (1, 3), *((offset, 4 if offset == 1 else 1) for offset in range(1, 11))]
    assert seen[1] == [(offset, 1) for offset in range(1, 11)]


@in_all
async def test_order_none_lets_all_records_of_a_key_run_at_once(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    running = 0
    everyone = anyio.Event()

    @orders.subscribe(group="billing", order="none", concurrency=20)
    async def handle(number: int) -> None:
        nonlocal running
        running += 1
        if running == 20:
            everyone.set()
        await everyone.wait()

    await orders.publish_many(("one-key", n) for n in range(20))
    await bench.work_until_idle()
    assert running == 20


async def test_order_none_retries_a_record_while_the_others_of_its_key_go_on(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    ended: list[int] = []
    others = anyio.Event()

    @orders.subscribe(group="billing", order="none", retry=Retry(wait=at_once))
    async def handle(number: int, ctx: Context) -> None:
        if number == 0 and ctx.attempt == 1:
            raise ValueError("not yet")
        if number == 0:
            await others.wait()
        ended.append(number)
        if len(ended) == 9:
            others.set()

    await orders.publish_many(("one-key", n) for n in range(10))
    await bench.work_until_idle()
    assert sorted(ended[:-1]) == list(range(1, 10))
    assert ended[-1] == 0


async def test_records_without_a_key_run_side_by_side(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    running = 0
    everyone = anyio.Event()

    @orders.subscribe(group="billing", concurrency=20)
    async def handle(number: int) -> None:
        nonlocal running
        running += 1
        if running == 20:
            everyone.set()
        await everyone.wait()

    await orders.publish_many((None, n) for n in range(20))
    await bench.work_until_idle()
    assert running == 20


@pytest.mark.parametrize("order", ["key", "none"])
async def test_records_without_a_key_wait_for_nobody(bench: Bench, order: str) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    unkeyed: list[int] = []
    all_unkeyed = anyio.Event()

    @orders.subscribe(group="billing", order=order, concurrency=4)  # type: ignore[arg-type]
    async def handle(number: int, ctx: Context) -> None:
        if ctx.key is not None:
            await all_unkeyed.wait()  # The keyed ones hold three of the four runners until then.
        else:
            unkeyed.append(number)
            if len(unkeyed) == 100:
                all_unkeyed.set()

    await orders.publish_many(("abc"[n % 3] if n % 2 and n < 6 else None, n) for n in range(103))
    await bench.work_until_idle()
    assert len(unkeyed) == 100


@in_all
async def test_a_failing_record_holds_only_its_key_and_its_followers_run_after_it(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    others = anyio.Event()

    @orders.subscribe(group="billing", retry=Retry(wait=at_once))
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            if ctx.key == "bad" and number == 1 and ctx.attempt < 5:
                if ctx.attempt == 4:
                    await others.wait()
                raise ValueError("not yet")
        if len(ledger.ended) == 1 + 3 * 10:
            others.set()

    await orders.publish_many((key, n) for n in range(10) for key in ("bad", "a", "b", "c"))
    await bench.work_until_idle()
    assert not ledger.violations
    assert [number for key, number in ledger.begun if key == "bad"] == [0, 1, 1, 1, 1, 1, *range(2, 10)]
    assert all(ledger.of(key) == list(range(10)) for key in ("a", "b", "c", "bad"))


async def test_records_published_while_others_run_follow_them_in_order(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            await anyio.lowlevel.checkpoint()

    async with bench.at_work():
        for number in range(50):
            await orders.publish_many((f"key-{k}", number) for k in range(10))
        await ledger.reaches(500)
    assert not ledger.violations


async def test_more_records_than_the_window_holds_are_handled_in_order(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int, partitions=1)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            pass

    await orders.publish_many((f"key-{k}", n) for n in range(500) for k in range(10))
    await bench.work_until_idle()
    assert not ledger.violations
    assert len(ledger.ended) == 5_000

"""Groups read a topic independently; where a new one starts is said once."""

import anyio
import pytest

from streams import Context, Retry
from streams.topic import Start
from tests.worker.bench import Bench
from tests.worker.ledger import Ledger
from tests.worker.setting import in_all, in_virtual_time


@in_all
async def test_every_group_handles_every_record_in_its_own_order(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    ledgers = {"billing": Ledger(), "audit": Ledger()}

    async def handle(number: int, ctx: Context) -> None:
        with ledgers[ctx.group].record(ctx, number):
            pass

    for group in ledgers:
        orders.subscribe(group=group)(handle)
    await orders.publish_many((f"key-{k}", n) for n in range(20) for k in range(10))
    await bench.work_until_idle()
    for ledger in ledgers.values():
        assert not ledger.violations
        assert len(ledger.ended) == 200


async def test_a_group_whose_handler_fails_holds_up_no_other_group(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    handled: list[int] = []

    @orders.subscribe(group="billing")
    async def fail(number: int) -> None:
        raise ValueError("never")

    @orders.subscribe(group="audit")
    async def succeed(number: int) -> None:
        handled.append(number)
        if len(handled) == 10:
            job.stop.set()

    await orders.publish_many(("key", n) for n in range(10))
    async with bench.at_work() as job:
        await job.over.wait()
    assert handled == list(range(10))
    billing = await bench.status("billing")
    assert (billing.lag, billing.parked) == (9, 1)
    assert (await bench.status("audit")).lag == 0


@pytest.mark.parametrize(("start", "expected"), [("earliest", [0, 1, 2, 3]), ("latest", [2, 3])])
async def test_a_new_group_starts_where_it_is_told(bench: Bench, start: Start, expected: list[int]) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    handled: list[int] = []

    @orders.subscribe(group="billing", start=start)
    async def handle(number: int) -> None:
        handled.append(number)

    await orders.publish_many(("key", n) for n in range(2))
    if start == "latest":
        await bench.work_until_idle()
        assert handled == []
    await orders.publish_many(("key", n) for n in range(2, 4))
    await bench.work_until_idle()
    assert handled == expected


async def test_where_to_start_counts_only_the_first_time(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    handled: list[int] = []

    @orders.subscribe(group="billing", start="latest")
    async def handle(number: int) -> None:
        handled.append(number)

    await bench.work_until_idle()
    await orders.publish_many(("key", n) for n in range(3))
    await bench.work_until_idle()
    assert handled == [0, 1, 2], "published between two runs of the worker, so after the group was made"


async def test_several_topics_and_subscriptions_share_one_worker(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=3)
    names = bench.app.topic("names", str, partitions=2)
    handled: dict[str, list[object]] = {"a": [], "b": [], "c": []}

    @orders.subscribe(group="a")
    @orders.subscribe(group="b", order="partition")
    async def number(number: int, ctx: Context) -> None:
        handled[ctx.group].append(number)

    @names.subscribe(group="c", order="none")
    async def name(name: str, ctx: Context) -> None:
        handled[ctx.group].append(name)

    await orders.publish_many((f"key-{n}", n) for n in range(30))
    await names.publish_many((f"key-{n}", f"name-{n}") for n in range(20))
    await bench.work_until_idle()
    assert {group: len(found) for group, found in handled.items()} == {"a": 30, "b": 30, "c": 20}
    assert set(handled["a"]) == set(handled["b"]) == set(range(30))


async def test_a_group_may_read_several_topics(bench: Bench) -> None:
    handled: set[tuple[str, int]] = set()

    async def handle(number: int, ctx: Context) -> None:
        handled.add((ctx.topic, number))

    for name in ("orders", "returns"):
        topic = bench.app.topic(name, int)
        topic.subscribe(group="billing")(handle)
        await topic.publish_many(("key", n) for n in range(5))
    await bench.work_until_idle()
    assert handled == {(name, n) for name in ("orders", "returns") for n in range(5)}


async def test_what_is_settled_is_not_handled_again_by_the_next_worker(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    handled: list[int] = []

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        handled.append(number)

    for round_ in range(3):
        await orders.publish_many((f"key-{n % 5}", round_ * 20 + n) for n in range(20))
        await bench.work_until_idle()
    assert sorted(handled) == list(range(60))


async def test_until_idle_ends_only_when_pipelines_are_done_too(bench: Bench) -> None:
    topics = [bench.app.topic(f"step-{n}", int) for n in range(4)]
    arrived: list[int] = []

    async def forward(number: int, ctx: Context) -> None:
        step = int(ctx.topic.removeprefix("step-"))
        if step == 3:
            arrived.append(number)
        else:
            ctx.publish(topics[step + 1], ctx.key, number)

    for topic in topics:
        topic.subscribe(group="pipeline")(forward)
    await topics[0].publish_many((f"key-{n % 7}", n) for n in range(300))
    await bench.work_until_idle()
    assert sorted(arrived) == list(range(300))


@in_virtual_time
async def test_until_idle_waits_for_what_nobody_has_taken_yet(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    handled: list[int] = []

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        handled.append(number)

    async def open_later() -> None:
        await anyio.sleep(5)
        gate.open()

    gate = bench.faults.hold("acquire")
    await orders.publish_many((f"key-{n}", n) for n in range(20))
    async with anyio.create_task_group() as group:
        group.start_soon(open_later)
        await bench.work_until_idle()
    assert sorted(handled) == list(range(20))


@in_virtual_time
async def test_until_idle_waits_for_a_record_that_waits_for_its_next_attempt(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    attempts: list[int] = []

    @orders.subscribe(group="billing", retry=Retry(wait=lambda state: 60.0))
    async def handle(number: int, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt < 3:
            raise ValueError("not yet")

    await orders.publish("key", 0)
    await bench.work_until_idle()
    assert attempts == [1, 2, 3]


@in_virtual_time
async def test_until_idle_waits_for_what_other_workers_have_to_do(bench: Bench) -> None:
    ends: list[float] = []

    def declare(worker: Bench) -> None:
        @worker.app.topic("orders", int).subscribe(group="billing")
        async def handle(number: int) -> None:
            await anyio.sleep(30)
            ends.append(anyio.current_time())

    declare(bench)
    async with bench.another() as other:
        declare(other)
        async with other.at_work():
            await bench.shared(8)
            await bench.app.publish_many("orders", ((f"key-{n}", n) for n in range(20)))
            await bench.work_until_idle()
            assert len(ends) == 20


async def test_until_idle_ends_at_once_when_there_is_nothing(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        raise AssertionError("there is nothing to handle")

    await bench.work_until_idle()
    assert (await bench.status("billing")).lag == 0


async def test_until_idle_does_not_wait_for_a_group_that_is_served_elsewhere(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    handled: list[int] = []

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        handled.append(number)

    await orders.publish("key", 1)
    await bench.store.ensure_group("audit", "orders", "earliest")
    await bench.work_until_idle()
    assert handled == [1]
    assert (await bench.status("audit")).lag == 1

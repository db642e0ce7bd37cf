"""Starting and ending: what a worker takes it gives back, however it ends; whoever did not finish is not charged."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

import streams.worker.heart
from streams import Context, Retry, SettingsError, Streams, StreamsError
from streams.errors import PublishUncertain, StoreUnavailable
from tests.conformance.leaks import nothing_left
from tests.worker.bench import Bench, until
from tests.worker.faults import EVER
from tests.worker.ledger import Ledger
from tests.worker.setting import MEMORY, SQLITE, VIRTUAL, in_all, in_settings, in_virtual_time


async def test_a_stopped_worker_finishes_what_runs_starts_nothing_more_and_leaves_nothing(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    handled: list[int] = []
    running = anyio.Event()
    go_on = anyio.Event()

    @orders.subscribe(group="billing", concurrency=2)
    async def handle(number: int) -> None:
        if number == 1:
            running.set()
        await go_on.wait()
        handled.append(number)

    await orders.publish_many((f"key-{n}", n) for n in range(10))
    async with bench.at_work() as job:
        await running.wait()
        job.stop.set()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        go_on.set()
        assert await job.finish()
    assert sorted(handled) == [0, 1]
    assert (await bench.partition("billing")).position == 2
    assert (await bench.partition("billing")).owner is None
    assert await bench.store.members() == []


@in_virtual_time
async def test_a_stopping_worker_starts_nothing_more_although_the_store_takes_its_time(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    starts: list[float] = []

    @orders.subscribe(group="billing", concurrency=1)
    async def handle(number: int) -> None:
        starts.append(anyio.current_time())
        await anyio.sleep(0.1)

    await orders.publish_many((f"key-{n}", n) for n in range(100))
    async with bench.at_work() as job:
        await until(lambda: len(starts) >= 3)
        bench.faults.hold("beat")  # It is to say that it is stopping.
        stopped = anyio.current_time()
        assert await job.finish()
    assert max(starts) <= stopped


@in_all
async def test_a_worker_that_has_ended_leaves_no_thread_task_or_connection(
    make_bench: Callable[..., Bench], ledger: Ledger
) -> None:
    async with nothing_left(lambda: 0), make_bench() as bench:
        orders = bench.app.topic("orders", int)

        @orders.subscribe(group="billing")
        async def handle(number: int, ctx: Context) -> None:
            with ledger.record(ctx, number):
                await anyio.lowlevel.checkpoint()

        await orders.publish_many((f"key-{n}", 0) for n in range(50))
        async with bench.at_work() as job:
            await ledger.reaches(50)
            assert await job.finish()
        async with bench.at_work() as job:
            await bench.shared(8)
            await job.cancel()


@in_settings(VIRTUAL, SQLITE)
async def test_what_is_not_done_in_time_is_handed_back_and_nobody_is_charged(
    make_bench: Callable[..., Bench],
) -> None:
    async with make_bench(shutdown_seconds=0.5) as bench:
        orders = bench.app.topic("orders", int, partitions=2)
        attempts: list[tuple[str | None, int]] = []
        running = anyio.Event()
        again = anyio.Event()

        @orders.subscribe(group="billing", retry=Retry(attempts=1))
        async def handle(number: int, ctx: Context) -> None:
            attempts.append((ctx.key, ctx.attempt))
            if len(attempts) == 2:
                running.set()
            if not again.is_set():
                await anyio.sleep_forever()

        await orders.publish_many((key, 0) for key in ("a", "b"))
        async with bench.at_work() as job:
            await running.wait()
            stopped = anyio.current_time()
            assert await job.finish() is False
            assert anyio.current_time() - stopped < 3
        assert await bench.store.members() == []
        again.set()
        await bench.work_until_idle()
        assert sorted(attempts) == [("a", 1), ("a", 1), ("b", 1), ("b", 1)]
        assert await bench.app.admin.dead.list() == []


@in_settings(VIRTUAL, SQLITE)
async def test_an_error_that_a_cancelled_handler_raises_at_the_end_is_not_charged(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    attempts: list[int] = []
    running = anyio.Event()

    @orders.subscribe(group="billing", retry=Retry(attempts=1))
    async def handle(number: int, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) == 1:
            running.set()
            try:
                await anyio.sleep_forever()
            finally:
                raise ValueError("cannot be cancelled politely")

    await orders.publish("key", 0)
    async with bench.at_work() as job:
        await running.wait()
        await job.cancel()
    await bench.work_until_idle()
    assert attempts == [1, 1]
    assert await bench.app.admin.dead.list() == []


@in_settings(MEMORY)
async def test_a_program_that_cancels_all_its_tasks_charges_nobody(bench: Bench) -> None:
    """As hand-written signal handlers do."""
    orders = bench.app.topic("orders", int, partitions=1)
    attempts: list[int] = []
    running = anyio.Event()

    @orders.subscribe(group="billing", retry=Retry(attempts=1))
    async def handle(number: int, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        if len(attempts) == 1:
            running.set()
            await anyio.sleep_forever()

    await orders.publish("key", 0)
    before = asyncio.all_tasks()
    work = asyncio.ensure_future(bench.work())
    await running.wait()
    for task in asyncio.all_tasks() - before:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await bench.store.members() == []
    await bench.work_until_idle()
    assert attempts == [1, 1]
    assert await bench.app.admin.dead.list() == []


@in_settings(MEMORY)
async def test_a_worker_one_of_whose_tasks_somebody_else_cancels_ends_with_an_error(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        pass

    await orders.publish("key", 0)
    work = asyncio.ensure_future(bench.work())
    await until(lambda: is_settled(bench))
    (runner,) = [task for task in asyncio.all_tasks() if "streams runner" in task.get_name()]
    runner.cancel()
    with pytest.raises(StreamsError, match="other code has cancelled a task of the worker"):
        await work
    assert await bench.store.members() == []


async def is_settled(bench: Bench) -> bool:
    """Whether the topic's one record is."""
    return (await bench.status("billing")).partitions != () and (await bench.partition("billing")).position == 1


@in_settings(MEMORY, SQLITE)
async def test_cancelling_the_task_that_works_hands_back_and_the_app_works_again(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            await anyio.lowlevel.checkpoint()

    for number in range(3):
        work = asyncio.ensure_future(bench.work())
        await orders.publish_many((f"key-{k}", number) for k in range(10))
        await ledger.reaches(10 * (number + 1))
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert await bench.store.members() == []
    assert len(ledger.ended) == 30
    assert not ledger.violations


@in_virtual_time
async def test_cancelling_ends_within_five_seconds_though_a_handler_does_not(bench: Bench) -> None:
    """A handler that ignores its cancellation for three seconds, and a store that does not answer."""
    orders = bench.app.topic("orders", int, partitions=2)
    running = anyio.Event()

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        running.set()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(3)

    await orders.publish("key", 0)
    async with bench.at_work() as job:
        await running.wait()
        await bench.shared(2)
        for verb in ("commit", "leave", "release"):
            bench.faults.hold(verb)
        started = anyio.current_time()
        await job.cancel()
        assert anyio.current_time() - started < 5


@in_virtual_time
async def test_a_partition_whose_handler_does_not_end_is_not_handed_back(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=2)
    epochs: list[tuple[str, int]] = []
    running = anyio.Event()

    def declare(worker: Bench, name: str) -> None:
        @worker.app.subscribe("orders", group="billing")
        async def handle(number: int, ctx: Context) -> None:
            epochs.append((name, ctx.epoch))
            running.set()
            if name == "first":
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(8)

    declare(bench, "first")
    receipt = await orders.publish("key", 0)
    async with bench.another() as other:
        other.app.topic("orders", int, partitions=2)
        declare(other, "second")
        async with bench.at_work() as job:
            await running.wait()
            await bench.shared(2)
            job.scope.cancel()
            async with other.at_work():
                await anyio.sleep(4)
                status = await bench.status("billing")
                mine, others = status.partitions[receipt.partition], status.partitions[1 - receipt.partition]
                assert (mine.epoch, others.epoch) == (1, 2)
                await job.over.wait()
                await bench.shared(2)
                await anyio.sleep(1)
    assert epochs == [("first", 1), ("second", 2)]


async def test_a_worker_with_nothing_to_serve_is_an_error(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    with pytest.raises(SettingsError, match="there is nothing to work on"):
        await bench.app.work()

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        pass

    with pytest.raises(SettingsError, match="billing of orders"):
        await bench.app.work(topics=["orders"], groups=[])


async def test_a_topic_or_group_that_the_app_does_not_serve_is_an_error_also_beside_one_that_it_does(
    bench: Bench,
) -> None:
    orders = bench.app.topic("orders", int)

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        pass

    with pytest.raises(SettingsError, match=r"topics=\['invoices'\].*only orders"):
        await bench.app.work(topics=["orders", "invoices"])
    with pytest.raises(SettingsError, match=r"groups=\['audit'\].*only billing"):
        await bench.app.work(groups=["audit", "billing"])


async def test_work_serves_only_what_it_is_told(bench: Bench) -> None:
    handled: set[tuple[str, str]] = set()

    async def handle(number: int, ctx: Context) -> None:
        handled.add((ctx.group, ctx.topic))

    for name in ("orders", "returns"):
        topic = bench.app.topic(name, int)
        for group in ("billing", "audit"):
            topic.subscribe(group=group)(handle)
        await topic.publish("key", 0)
    await bench.app.work(topics=["orders"], groups=["audit"], until_idle=True)
    assert handled == {("audit", "orders")}
    await bench.app.work(groups=["audit"], until_idle=True)
    assert handled == {("audit", "orders"), ("audit", "returns")}


@in_settings(SQLITE)
async def test_an_app_works_without_having_been_entered_and_again(tmp_path: Path) -> None:
    app = Streams(f"sqlite:///{tmp_path}/app.db")
    orders = app.topic("orders", int)
    handled: list[int] = []

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        handled.append(number)

    async with nothing_left(lambda: 0):
        for number in range(2):
            async with app:
                await orders.publish("key", number)
            await app.work(until_idle=True)
    assert handled == [0, 1]


# A start that fails


async def declare_nothing_special(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        pass


@pytest.mark.parametrize("verb", ["ensure_group", "register"])
@in_all
async def test_a_database_that_is_away_at_the_start_is_an_error(bench: Bench, verb: str) -> None:
    await declare_nothing_special(bench)
    bench.faults.fail(verb)
    with pytest.raises(StoreUnavailable):
        await bench.work()
    assert await bench.store.members() == []


@in_all
async def test_a_registration_without_an_answer_is_taken_back(bench: Bench) -> None:
    await declare_nothing_special(bench)
    bench.faults.fail("register", error=PublishUncertain("no answer"), after=True)
    with pytest.raises(PublishUncertain):
        await bench.work()
    assert await bench.store.members() == []


@in_settings(MEMORY, SQLITE)
async def test_a_start_without_a_thread_to_be_had_is_taken_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await declare_nothing_special(bench)

    def no_thread(**options: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(streams.worker.heart, "start_blocking_portal", no_thread)
    with pytest.raises(BaseExceptionGroup) as caught:
        await bench.work()
    assert caught.group_contains(RuntimeError, match="can't start new thread")
    assert await bench.store.members() == []


@in_settings(MEMORY, SQLITE)
async def test_a_start_that_is_cancelled_is_taken_back_wherever_it_was(bench: Bench) -> None:
    await declare_nothing_special(bench)
    threads = set(threading.enumerate())
    registered = 0
    for turns in range(60):
        async with bench.at_work() as job:
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            await job.cancel()
        registered = len(bench.faults.calls["register"])
        assert await bench.store.members() == [], f"cancelled after {turns} turns of the event loop"
    assert registered
    assert not [thread for thread in set(threading.enumerate()) - threads if "streams" in thread.name]


@in_virtual_time
async def test_a_worker_that_stops_takes_nothing_more(bench: Bench) -> None:
    """Ten times, since it depends on who runs first: it is stopped just when it has a reason to look what is free."""
    await declare_nothing_special(bench)
    for number in range(10):
        async with bench.at_work() as job:
            await bench.shared(8)
            await anyio.sleep(1)
            taken = len(bench.faults.calls["acquire"])
            await bench.store.ensure_group(f"another-{number}", "orders", "earliest")
            assert await job.finish()
            assert len(bench.faults.calls["acquire"]) == taken


@in_settings(MEMORY)
async def test_what_a_stopping_worker_had_asked_for_before_is_handed_over_too(bench: Bench) -> None:
    await declare_nothing_special(bench)
    async with bench.another() as other:
        await declare_nothing_special(other)
        async with bench.at_work() as job:
            async with other.at_work():
                await bench.shared(4, 4)
                gate = bench.faults.hold("acquire")
            await gate.reached.wait()  # It has asked for what the other one has released.
            job.stop.set()
            gate.open()
            with anyio.fail_after(5):
                assert await job.finish()
    assert {one.owner for one in (await bench.status("billing")).partitions} == {None}


@in_virtual_time
async def test_a_database_that_is_away_does_not_keep_a_worker_from_stopping(
    make_bench: Callable[..., Bench],
) -> None:
    async with make_bench(shutdown_seconds=5) as bench:
        await declare_nothing_special(bench)
        async with bench.at_work() as job:
            await bench.shared(8)
            bench.faults.fail("beat", "release", "commit", "view", "generation", "leave", times=EVER)
            stopped = anyio.current_time()
            assert await job.finish() is False
            assert anyio.current_time() - stopped < 5 + 3
        bench.faults.heal()
        async with bench.at_work() as job:
            waited = anyio.current_time()
            await bench.shared(8)
            assert anyio.current_time() - waited < 10 + 1, "they expire"


@in_virtual_time
async def test_a_worker_that_is_stopped_while_it_cannot_join_again_ends(bench: Bench) -> None:
    await declare_nothing_special(bench)
    async with bench.at_work() as job:
        await bench.shared(8)
        bench.faults.fail("beat", "register", times=EVER)
        await anyio.sleep(60)
        stopped = anyio.current_time()
        assert await job.finish() is False
        assert anyio.current_time() - stopped < 3

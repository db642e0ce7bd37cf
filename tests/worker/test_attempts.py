"""How often a record has failed, since when, and when it is due again outlive the worker that it failed in."""

from typing import Any

import anyio
import pytest
import tenacity

from streams import Context, Discard, Retry, RetryLater
from streams.stores.rows import Parked, Settlement
from tests.worker.bench import Bench, at_once, until
from tests.worker.faults import EVER
from tests.worker.setting import in_all, in_virtual_time

ORDERS = ["key", "partition", "none"]


def rows_of(bench: Bench) -> list[Parked]:
    """All rows of failing records that were sent to the store."""
    sent: list[Settlement] = [one for (group,) in bench.faults.calls["commit"] for one in group]
    return [row for one in sent for row in one.park]


@pytest.mark.parametrize("key", ["key", None])
@pytest.mark.parametrize("order", ORDERS)
@in_all
async def test_the_next_worker_counts_on(bench: Bench, order: Any, key: str | None) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    attempts: list[tuple[int, int]] = []

    @orders.subscribe(group="billing", order=order, retry=Retry(attempts=6, wait=at_once))
    async def handle(number: int, ctx: Context) -> None:
        attempts.append((number, ctx.attempt))
        if number == 1:
            if ctx.attempt % 2 == 0:
                job.stop.set()
            raise ValueError("never")

    await orders.publish_many((key, number) for number in range(3))
    for life in range(3):
        async with bench.at_work() as job:
            await job.over.wait()
        assert (await bench.status("billing")).parked == (1 if life < 2 else 0)
    assert [attempt for number, attempt in attempts if number == 1] == [1, 2, 3, 4, 5, 6]
    (letter,) = await bench.app.admin.dead.list()
    assert (letter.offset, letter.attempts, letter.cause) == (2, 6, "exhausted")
    await bench.work_until_idle()
    status = await bench.status("billing")
    assert (status.lag, status.parked) == (0, 0)
    assert sorted({number for number, _ in attempts}) == [0, 1, 2]


@in_virtual_time
async def test_a_worker_that_hands_nothing_back_leaves_its_attempts_too(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    attempts: list[int] = []

    @orders.subscribe(group="billing", retry=Retry(wait=lambda state: 9.0 if state.attempt_number == 3 else 0.0))
    async def handle(number: int, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt < 5:
            raise ValueError("not yet")

    await orders.publish("key", 0)
    async with bench.at_work() as job:
        await until(lambda: [row.attempts for row in rows_of(bench)][-1:] == [3])
        await anyio.sleep(1)
        bench.faults.fail("commit", "release", "leave", times=EVER)
        await job.cancel()
    bench.faults.heal()
    await bench.work_until_idle()
    assert attempts == [1, 2, 3, 4, 5]


@in_virtual_time
async def test_a_record_is_due_when_it_was_due_also_in_another_worker(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    runs: list[tuple[int, float]] = []

    @orders.subscribe(group="billing", retry=Retry(attempts=3, wait=lambda _: 60.0))
    async def handle(number: int, ctx: Context) -> None:
        runs.append((ctx.attempt, bench.clock()))
        raise ValueError("never")

    await orders.publish("key", 0)
    for _ in range(4):
        async with bench.at_work():
            await anyio.sleep(35)
        await anyio.sleep(5)
    first = runs[0][1]
    assert [(attempt, round(at - first)) for attempt, at in runs] == [(1, 0), (2, 60), (3, 120)]


@in_virtual_time
async def test_the_time_for_which_a_record_has_failed_goes_on_in_another_worker(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    runs: list[float] = []

    @orders.subscribe(
        group="billing", retry=Retry(attempts=1_000, wait=lambda _: 10.0, stop=tenacity.stop_after_delay(100))
    )
    async def handle(number: int) -> None:
        runs.append(bench.clock())
        raise ValueError("never")

    await anyio.sleep(1_000)  # Virtual time begins at 0.
    await orders.publish("key", 0)
    for _ in range(6):
        async with bench.at_work():
            await anyio.sleep(25)
    assert [round(at - runs[0]) for at in runs] == [10 * number for number in range(11)]
    (letter,) = await bench.app.admin.dead.list()
    assert letter.attempts == 11


@in_virtual_time
async def test_retry_later_is_due_later_in_another_worker_and_still_charges_nothing(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    runs: list[tuple[int, float]] = []

    @orders.subscribe(group="billing", retry=Retry(attempts=1))
    async def handle(number: int, ctx: Context) -> None:
        runs.append((ctx.attempt, bench.clock()))
        if len(runs) < 3:
            raise RetryLater(50)

    await orders.publish("key", 0)
    for _ in range(4):
        async with bench.at_work():
            await anyio.sleep(30)
    assert [(attempt, round(at - runs[0][1])) for attempt, at in runs] == [(1, 0), (1, 50), (1, 100)]
    assert (await bench.status("billing")).parked == 0


@pytest.mark.parametrize("outcome", [None, Discard("stale")])
@in_all
async def test_each_failed_attempt_writes_a_row_and_what_does_not_fail_writes_none(
    bench: Bench, outcome: Discard | None
) -> None:
    orders = bench.app.topic("orders", int, partitions=1)

    @orders.subscribe(group="billing", retry=Retry(wait=at_once))
    async def handle(number: int, ctx: Context) -> Discard | None:
        if number == 7 and ctx.attempt < 4:
            raise ValueError(f"attempt {ctx.attempt}")
        return outcome

    await orders.publish_many((f"key-{number}", number) for number in range(20))
    await bench.work_until_idle()
    rows = rows_of(bench)
    assert {(row.offset, row.key) for row in rows} == {(8, "key-7")}
    assert 1 <= len(rows) <= 3
    assert all(row.error == f"ValueError: attempt {row.attempts}" and row.due_at >= row.since for row in rows)
    unparked = [offset for (group,) in bench.faults.calls["commit"] for one in group for offset in one.unpark]
    assert unparked == [8]
    status = await bench.status("billing")
    assert (status.lag, status.parked) == (0, 0)

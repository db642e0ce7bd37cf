"""A failed record is tried again in its place, so often as its subscription says, and then goes to the dead letters."""

from functools import partial
from itertools import pairwise
from typing import Any

import anyio
import pytest

from streams import Context, DeadLetter, Discard, Retry, RetryLater
from streams.stores import rows
from tests.worker.bench import Bench, at_once, until
from tests.worker.ledger import Ledger
from tests.worker.setting import in_all, in_virtual_time


async def the_dead(bench: Bench) -> list[rows.DeadLetter]:
    return await bench.app.admin.dead.list()


async def test_attempts_are_counted_from_one(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    attempts: list[int] = []

    @orders.subscribe(group="billing", retry=Retry(attempts=9, wait=at_once))
    async def handle(number: int, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        if ctx.attempt < 4:
            raise ValueError("not yet")

    await orders.publish("key", 0)
    await bench.work_until_idle()
    assert attempts == [1, 2, 3, 4]


async def test_the_next_record_of_a_key_that_failed_starts_at_its_first_attempt(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    attempts: list[tuple[int, int]] = []

    @orders.subscribe(group="billing", retry=Retry(wait=at_once))
    async def handle(number: int, ctx: Context) -> None:
        attempts.append((number, ctx.attempt))
        if ctx.attempt == 1:
            raise ValueError("not yet")

    await orders.publish_many(("key", n) for n in range(2))
    await bench.work_until_idle()
    assert attempts == [(0, 1), (0, 2), (1, 1), (1, 2)]


async def test_only_the_last_attempt_is_told_that_it_is_final(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    final: list[bool] = []

    @orders.subscribe(group="billing", retry=Retry(attempts=3, wait=at_once))
    async def handle(number: int, ctx: Context) -> None:
        final.append(ctx.is_final_attempt)
        raise ValueError("never")

    await orders.publish("key", 0)
    await bench.work_until_idle()
    assert final == [False, False, True]


@in_all
async def test_an_exhausted_record_is_a_dead_letter_whole(bench: Bench) -> None:
    orders = bench.app.topic("orders", dict[str, int], partitions=1)
    seen: list[Context] = []

    @orders.subscribe(group="billing", retry=Retry(attempts=3, wait=at_once))
    async def charge(order: dict[str, int], ctx: Context) -> None:
        seen.append(ctx)
        raise ValueError(f"cannot charge, attempt {ctx.attempt}")

    await orders.publish("customer-7", {"total": 5}, headers={"trace": "abc"})
    await bench.work_until_idle()
    (letter,) = await the_dead(bench)
    assert (letter.group, letter.topic, letter.partition, letter.offset) == ("billing", "orders", 0, 1)
    assert (letter.key, letter.payload, letter.headers) == ("customer-7", b'{"total":5}', b'{"trace":"abc"}')
    assert letter.published_at == round(seen[0].published_at.timestamp() * 1_000_000)
    assert (letter.attempts, letter.cause) == (3, "exhausted")
    assert letter.error == "ValueError: cannot charge, attempt 3"
    assert "in charge" in letter.traceback
    assert letter.traceback.rstrip().endswith("ValueError: cannot charge, attempt 3")
    assert letter.died_at >= letter.published_at


@in_all
async def test_the_key_of_an_exhausted_record_goes_on(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int)
    handled: list[int] = []

    @orders.subscribe(group="billing", retry=Retry(attempts=2, wait=at_once))
    async def handle(number: int) -> None:
        if number == 1:
            raise ValueError("never")
        handled.append(number)

    await orders.publish_many(("key", n) for n in range(4))
    await bench.work_until_idle()
    assert handled == [0, 2, 3]
    assert [letter.offset for letter in await the_dead(bench)] == [2]


@in_all
async def test_a_dead_letter_goes_to_the_store_once(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int, partitions=1)

    @orders.subscribe(group="billing", retry=Retry(attempts=1))
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            if number == 0:
                raise ValueError("never")

    async def is_settled(position: int) -> bool:
        return (await bench.partition("billing")).position == position

    async with bench.at_work():
        await bench.shared(1)
        for number in range(2):  # The second is settled in a commit of its own.
            await orders.publish("key", number)
            await until(partial(is_settled, number + 1))
    letters = [letter for call in bench.faults.calls["commit"] for made in call[0] for letter in made.dead]
    assert [letter.offset for letter in letters] == [1]


@in_all
async def test_an_undecodable_record_is_a_dead_letter_with_its_bytes_and_no_handler_sees_it(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    seen: list[Any] = []

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        seen.append(number)

    await orders.publish("key", 0)
    (topic,) = [await bench.store.topic("orders")]
    assert topic is not None
    await bench.store.append([rows.Publication(topic.id, 0, "key", b'\xff"not json', None)])
    await orders.publish("key", 2)
    await bench.work_until_idle()
    assert seen == [0, 2]
    (letter,) = await the_dead(bench)
    assert (letter.offset, letter.key, letter.payload) == (2, "key", b'\xff"not json')
    assert (letter.cause, letter.attempts) == ("undecodable", 0)
    assert letter.error


@pytest.mark.parametrize("how", ["raised", "returned"])
@in_all
async def test_dead_letter_makes_a_record_dead_at_once(bench: Bench, how: str) -> None:
    orders = bench.app.topic("orders", int)
    handled: list[int] = []

    @orders.subscribe(group="billing")
    async def handle(number: int) -> object:
        handled.append(number)
        if number:
            return None
        if how == "raised":
            raise DeadLetter("no such customer")
        return DeadLetter("no such customer")

    await orders.publish_many(("key", n) for n in range(2))
    await bench.work_until_idle()
    assert handled == [0, 1]
    (letter,) = await the_dead(bench)
    assert (letter.offset, letter.cause, letter.attempts) == (1, "rejected", 1)
    assert letter.error == "DeadLetter: no such customer"


@pytest.mark.parametrize("how", ["raised", "returned"])
async def test_discard_settles_a_record_without_a_dead_letter(bench: Bench, how: str) -> None:
    orders = bench.app.topic("orders", int)
    handled: list[int] = []

    @orders.subscribe(group="billing")
    async def handle(number: int) -> object:
        handled.append(number)
        if number:
            return None
        if how == "raised":
            raise Discard("stale")
        return Discard()

    await orders.publish_many(("key", n) for n in range(2))
    await bench.work_until_idle()
    assert handled == [0, 1]
    assert await the_dead(bench) == []
    assert (await bench.status("billing")).lag == 0


@pytest.mark.parametrize("how", ["raised", "returned"])
@in_virtual_time
async def test_retry_later_waits_as_long_as_it_says_and_charges_no_attempt(bench: Bench, how: str) -> None:
    orders = bench.app.topic("orders", int)
    runs: list[tuple[int, int, float]] = []

    @orders.subscribe(group="billing", retry=Retry(attempts=1))
    async def handle(number: int, ctx: Context) -> object:
        runs.append((number, ctx.attempt, anyio.current_time()))
        if number or len(runs) == 4:
            return None
        if how == "raised":
            raise RetryLater(90)
        return RetryLater(90)

    await orders.publish_many(("key", n) for n in range(2))
    await bench.work_until_idle()
    assert [(number, attempt) for number, attempt, _ in runs] == [(0, 1), (0, 1), (0, 1), (0, 1), (1, 1)]
    times = [at for _, _, at in runs]
    assert [round(after - before) for before, after in pairwise(times)] == [90, 90, 90, 0]


@in_virtual_time
async def test_a_failed_record_waits_as_long_as_its_strategy_says(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    times: list[float] = []

    @orders.subscribe(group="billing", retry=Retry(wait=lambda state: 10.0 * state.attempt_number))
    async def handle(number: int) -> None:
        times.append(anyio.current_time())
        if len(times) < 4:
            raise ValueError("not yet")

    await orders.publish("key", 0)
    await bench.work_until_idle()
    assert [round(after - before) for before, after in pairwise(times)] == [10, 20, 30]


@in_virtual_time
async def test_a_strategy_that_says_stop_ends_the_attempts_early(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    attempts: list[int] = []
    asked: list[tuple[int, int]] = []

    def stop(state: Any) -> bool:
        asked.append((state.attempt_number, round(state.seconds_since_start)))
        return bool(state.seconds_since_start >= 20)

    @orders.subscribe(group="billing", retry=Retry(stop=stop, wait=lambda state: 15.0))
    async def handle(number: int, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        raise ValueError("never")

    await orders.publish("key", 0)
    await bench.work_until_idle()
    assert attempts == [1, 2, 3]
    assert asked == [(1, 0), (2, 15), (3, 30)]
    assert [letter.attempts for letter in await the_dead(bench)] == [3]


@in_virtual_time
async def test_the_wait_that_is_drawn_is_the_wait_that_is_logged_and_kept(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    orders = bench.app.topic("orders", int)
    times: list[float] = []

    @orders.subscribe(group="billing", retry=Retry(attempts=6))
    async def handle(number: int) -> None:
        times.append(anyio.current_time())
        raise ValueError("never")

    await orders.publish("key", 0)
    await bench.work_until_idle()
    said = [entry.getMessage() for entry in caplog.records if "is repeated in" in entry.getMessage()]
    waited = [after - before for before, after in pairwise(times)]
    assert [text.rpartition("repeated in ")[2] for text in said] == [f"{seconds:.1f} s" for seconds in waited]
    assert all(seconds <= 0.5 * 2**place for place, seconds in enumerate(waited))


@in_virtual_time
async def test_other_keys_go_on_while_a_record_waits_for_its_next_attempt(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    ended: list[tuple[str | None, float]] = []

    @orders.subscribe(group="billing", concurrency=1, retry=Retry(wait=lambda state: 100.0))
    async def handle(number: int, ctx: Context) -> None:
        if ctx.key == "bad" and ctx.attempt == 1:
            raise ValueError("not yet")
        ended.append((ctx.key, anyio.current_time()))

    await orders.publish_many((key, 0) for key in ("bad", *(f"key-{n}" for n in range(100))))
    started = anyio.current_time()
    await bench.work_until_idle()
    assert [key for key, _ in ended] == [*(f"key-{n}" for n in range(100)), "bad"]
    assert ended[99][1] - started < 1
    assert ended[100][1] - started >= 100

"""No loop ends of an error: it is started again, ever more slowly, and the same error is said once."""

import logging
from itertools import pairwise

import anyio
import pytest

from streams import Context
from streams.errors import StoreUnavailable, UnknownTopic
from streams.worker.backoff import CAP_SECONDS, Backoff
from streams.worker.signal import Signal
from streams.worker.supervision import LAST_SECONDS, supervised
from tests.worker.bench import Bench, until
from tests.worker.faults import EVER
from tests.worker.ledger import Ledger
from tests.worker.setting import SQLITE, VIRTUAL, in_settings, in_virtual_time


class Loop:
    """A loop that ends as it is told, and remembers when it was started."""

    def __init__(self, *ends: Exception | float | None) -> None:
        self.ends = list(ends)
        self.starts: list[float] = []

    async def __call__(self) -> None:
        self.starts.append(anyio.current_time())
        end = self.ends.pop(0) if self.ends else float("inf")
        if isinstance(end, float):
            await anyio.sleep(end)
        elif end is not None:
            raise end


async def watch(loop: Loop, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        await supervised("the loop", loop)


@in_virtual_time
async def test_a_loop_that_fails_is_started_again_ever_more_slowly(real_store: object) -> None:
    loop = Loop(*[ValueError("no")] * 1_000)
    await watch(loop, 300)
    pauses = [round(after - before, 3) for before, after in pairwise(loop.starts)]
    assert pauses[0] < 0.1
    assert pauses == sorted(pauses)
    assert max(pauses) == LAST_SECONDS
    assert len(loop.starts) > 60


@in_virtual_time
async def test_a_loop_that_ends_is_started_again(real_store: object) -> None:
    loop = Loop(None, None)
    await watch(loop, 10)
    assert len(loop.starts) == 3


@in_virtual_time
async def test_the_same_error_is_said_once_and_another_one_too(
    real_store: object, caplog: pytest.LogCaptureFixture
) -> None:
    await watch(Loop(*[ValueError("one")] * 5, *[ValueError("two")] * 5), 300)
    assert [entry.getMessage() for entry in caplog.records] == [
        "the loop failed and is started again: ValueError: one",
        "the loop failed and is started again: ValueError: two",
    ]
    assert all(entry.levelno == logging.ERROR and entry.exc_info for entry in caplog.records)


@in_virtual_time
async def test_after_a_calm_time_the_pause_is_short_again_and_the_error_is_said_again(
    real_store: object, caplog: pytest.LogCaptureFixture
) -> None:
    loop = Loop(*[ValueError("one")] * 8, 60.0, ValueError("one"), ValueError("one"))
    await watch(loop, 600)
    assert len(caplog.records) == 2
    assert loop.starts[-1] - loop.starts[-2] < 0.3


@in_virtual_time
async def test_a_store_that_is_away_is_said_once_and_that_it_is_back_too(
    real_store: object, caplog: pytest.LogCaptureFixture
) -> None:
    backoff = Backoff("records cannot be read", logging.getLogger("streams"))
    pauses: list[float] = []
    for _ in range(2_000):
        before = anyio.current_time()
        await backoff.pause(StoreUnavailable("away"))
        pauses.append(anyio.current_time() - before)
    backoff.over()
    backoff.over()
    assert pauses[0] <= 0.1
    assert max(pauses) <= CAP_SECONDS
    assert min(pauses[100:]) >= CAP_SECONDS / 2
    assert [entry.getMessage() for entry in caplog.records] == [
        "records cannot be read, trying again: away",
        "records cannot be read: over after 2000 failures",
    ]


@in_virtual_time
async def test_a_signal_wakes_a_waiter_once_also_when_it_was_raised_before(real_store: object) -> None:
    signal = Signal()
    signal.raise_()
    signal.raise_()
    assert signal.raised
    assert await signal.wait(10)
    assert not signal.raised
    before = anyio.current_time()
    assert not await signal.wait(10)
    assert anyio.current_time() - before == 10


@pytest.mark.parametrize("verb", ["fetch", "commit", "view", "rung", "generation"])
@in_settings(VIRTUAL, SQLITE)
async def test_an_error_that_nobody_expects_ends_no_loop_of_a_worker(
    bench: Bench, ledger: Ledger, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    orders = bench.app.topic("orders", int)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            await anyio.lowlevel.checkpoint()

    async with bench.at_work() as job:
        await bench.shared(8)
        bench.faults.fail(verb, error=UnknownTopic("orders", "a bug, or a topic that was deleted"), times=3)
        for number in range(10):
            await orders.publish_many((f"key-{k}", number) for k in range(10))
            await ledger.reaches(10 * (number + 1))
        if verb in ("view", "generation"):
            await bench.store.ensure_group("another", "orders", "earliest")
        await until(lambda: bench.faults.failed >= 3)
        assert await job.finish()
    assert not ledger.violations
    assert len(ledger.ended) == 100
    said = [entry.getMessage() for entry in caplog.records if "is started again" in entry.getMessage()]
    assert len(said) == 1
    assert said[0].endswith("failed and is started again: UnknownTopic: a bug, or a topic that was deleted")


@in_settings(VIRTUAL, SQLITE)
async def test_a_handover_that_fails_unexpectedly_is_started_again(
    bench: Bench, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    declare(bench, ledger)
    async with bench.another() as other, bench.at_work() as job:
        declare(other, ledger)
        await bench.shared(8)
        bench.faults.fail("release", error=ValueError("a bug"), times=2)
        async with other.at_work():
            await bench.shared(4, 4)
            await bench.app.publish_many("orders", ((f"key-{k}", n) for n in range(2) for k in range(50)))
            await ledger.reaches(100)
        assert await job.finish()
    assert not ledger.violations
    assert "the handover failed" in caplog.text


@in_settings(VIRTUAL)
async def test_a_partition_whose_handover_failed_is_worked_on_when_it_may_stay_after_all(
    bench: Bench, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    declare(bench, ledger)
    async with bench.another() as other, bench.at_work():
        declare(other, ledger)
        await bench.shared(8)
        bench.faults.fail("release", error=ValueError("a bug"), times=EVER)
        async with other.at_work() as job:
            await until(lambda: caplog.text.count("the handover failed") >= 4)
            await job.cancel()  # Whoever was to have them has gone.
        bench.faults.heal()
        await bench.app.publish_many("orders", ((f"key-{k}", 0) for k in range(50)))
        await ledger.reaches(50)
    assert not ledger.violations


@in_settings(VIRTUAL, SQLITE)
@pytest.mark.parametrize("verb", ["release", "beat"])
async def test_a_drain_goes_on_after_an_error_that_nobody_expects(bench: Bench, ledger: Ledger, verb: str) -> None:
    declare(bench, ledger)
    async with bench.at_work() as job:
        await bench.shared(8)
        bench.faults.fail(verb, error=ValueError("a bug"))
        assert await job.finish()
    assert await bench.shares() == []
    assert await bench.store.members() == []


def declare(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            await anyio.lowlevel.checkpoint()

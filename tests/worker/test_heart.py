"""The heart: when it beats, what it tells, and what it does when the main loop stands still."""

import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from partition import Rhythm
from streams import Context
from streams.stores.protocol import Store
from streams.stores.rows import MemberRow
from streams.worker.heart import Heart, beating
from tests.worker.bench import Bench
from tests.worker.faults import EVER, Faults, faulty
from tests.worker.setting import MEMORY, SQLITE, in_settings, in_virtual_time

RHYTHM = Rhythm.of(30)
"""A beat every 10 s, given up after 5 s, tried again after 1 s, trusted for 20 s."""


class Clock:
    """The test's virtual clock, and what was slept by the whole machine."""

    def __init__(self) -> None:
        self.slept_seconds = 0.0

    def __call__(self) -> float:
        return anyio.current_time() + self.slept_seconds


class Beating:
    """A heart that beats in virtual time for the member `me`."""

    def __init__(self, heart: Heart, faults: Faults, store: Store, clock: Clock, stalls: list[float]) -> None:
        self.heart = heart
        self.faults = faults
        self.store = store
        self.clock = clock
        self.stalls = stalls
        self.times: list[float] = []
        faults.on_call = self._note

    def _note(self, verb: str) -> None:
        if verb == "beat":
            self.times.append(round(anyio.current_time(), 3))

    async def row(self) -> MemberRow:
        (row,) = [row for row in (await self.store.view([])).members if row.member == "me"]
        return row


@asynccontextmanager
async def a_heart(store: Store, *, stall_seconds: float = 1e9) -> AsyncIterator[Beating]:
    clock, faults = Clock(), Faults()
    stalls: list[float] = []
    await store.register(MemberRow("me", "here", 1, (), 30_000_000))
    heart = Heart(
        "me",
        RHYTHM,
        clock,
        sent=clock(),
        stall_seconds=stall_seconds,
        on_stall=lambda: stalls.append(anyio.current_time()),
    )
    found = Beating(heart, faults, store, clock, stalls)
    async with beating(heart, lambda: faulty(store.sibling(), faults), in_thread=False):
        yield found


@in_virtual_time
async def test_it_beats_every_third_of_the_time_to_live(real_store: Store) -> None:
    async with a_heart(real_store) as found:
        await anyio.sleep(45)
        assert found.times == [10, 20, 30, 40]
        assert found.heart.trust_until == 60


@in_virtual_time
async def test_a_failed_beat_is_tried_again_after_a_thirtieth(
    real_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_heart(real_store) as found:
        found.faults.fail("beat", times=3)
        await anyio.sleep(25)
        assert found.times == [10, 11, 12, 13, 23]
        assert found.heart.trust_until == 43
    assert [entry.getMessage() for entry in caplog.records] == [
        "member me: a heartbeat failed: StoreUnavailable: the database is away"
    ] * 3


@in_virtual_time
async def test_a_beat_without_an_answer_is_given_up_after_a_sixth(real_store: Store) -> None:
    async with a_heart(real_store) as found:
        found.faults.hold("beat")
        await anyio.sleep(25)
        assert found.times == [10, 16, 22], "the last that could help is sent before trust ends"
        assert found.heart.trust_until == 20


@in_virtual_time
async def test_trust_counts_from_when_the_beat_was_sent(real_store: Store) -> None:
    async with a_heart(real_store) as found:
        gate = found.faults.hold("beat")
        await anyio.sleep(14)
        gate.open()
        await anyio.sleep(0.1)
        assert found.heart.trust_until == 30, "sent at 10, answered at 14"
        await anyio.sleep(10)
        assert found.times == [10, 20]


@in_virtual_time
async def test_a_refused_beat_ends_trust_and_the_heart(real_store: Store) -> None:
    async with a_heart(real_store) as found:
        await real_store.leave("me")
        await anyio.sleep(40)
        assert found.times == [10]
        assert found.heart.lost
        assert found.heart.trust_until == float("-inf")


@in_virtual_time
async def test_a_beat_says_whether_the_main_loop_has_turned_and_whether_it_is_stopping(real_store: Store) -> None:
    async with a_heart(real_store) as found:
        await anyio.sleep(11)
        assert not (await found.row()).turned
        found.heart.turns += 1
        found.heart.stopping = True
        await anyio.sleep(10)
        assert (await found.row()).turned
        assert (await found.row()).stopping


@in_virtual_time
async def test_a_store_that_cannot_be_opened_is_opened_later(real_store: Store) -> None:
    async with a_heart(real_store) as found:
        found.faults.fail("open", times=3)
        await anyio.sleep(25)
        assert found.times == [13, 23]


@in_virtual_time
async def test_a_loop_that_does_not_turn_for_long_ends_the_process(
    real_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_heart(real_store, stall_seconds=60) as found:
        for _ in range(3):
            found.heart.turns += 1
            await anyio.sleep(14)
        await anyio.sleep(100)
        assert found.stalls == [90], "it turned last at 28, as the beat at 30 has seen"
        assert found.times[-1] == 80, "it beats no more"
        assert found.heart.trust_until == float("-inf")
    (said,) = [entry for entry in caplog.records if entry.levelno == logging.CRITICAL]
    assert "the event loop has not turned for 60 s" in said.getMessage()


@in_virtual_time
async def test_time_in_which_the_machine_slept_is_not_held_against_the_main_loop(real_store: Store) -> None:
    async with a_heart(real_store, stall_seconds=60) as found:
        for _ in range(3):
            found.clock.slept_seconds += 3_600
            await anyio.sleep(10)
        assert found.stalls == []
        await anyio.sleep(60)
        assert len(found.stalls) == 1, "but what it stands still while the heart beats is"


@in_virtual_time
async def test_errors_of_the_store_do_not_keep_a_stall_from_being_noticed(real_store: Store) -> None:
    async with a_heart(real_store, stall_seconds=60) as found:
        found.faults.fail("beat", times=EVER)
        await anyio.sleep(75)
        assert len(found.stalls) == 1


def stand_still(seconds: float) -> None:
    time.sleep(seconds)


@in_settings(MEMORY)
async def test_the_stack_of_the_main_thread_is_logged_while_it_stands_still(
    real_store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """In real time, with the heart in its thread."""
    stalled = threading.Event()
    rhythm = Rhythm.of(1)
    await real_store.register(MemberRow("me", "here", 1, (), 1_000_000))
    heart = Heart("me", rhythm, time.monotonic, sent=time.monotonic(), stall_seconds=0.5, on_stall=stalled.set)
    async with beating(heart, real_store.sibling, in_thread=True):
        for _ in range(30):
            if stalled.is_set():
                break
            stand_still(0.1)
    assert stalled.is_set()
    (said,) = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.CRITICAL]
    assert "in stand_still" in said


@in_settings(MEMORY)
async def test_the_thread_of_a_heart_ends_with_its_block(real_store: Store) -> None:
    before = set(threading.enumerate())
    rhythm = Rhythm.of(1)
    await real_store.register(MemberRow("me", "here", 1, (), 1_000_000))
    heart = Heart("me", rhythm, time.monotonic, sent=time.monotonic(), stall_seconds=10)
    async with beating(heart, real_store.sibling, in_thread=True):
        assert any("streams-heart" in thread.name for thread in set(threading.enumerate()) - before)
    assert not any("streams-heart" in thread.name for thread in set(threading.enumerate()) - before)


@in_settings(MEMORY, SQLITE)
async def test_a_handler_that_blocks_the_event_loop_does_not_lose_its_leases(make_bench: Callable[..., Bench]) -> None:
    """In real time: the heart has a thread and a connection of its own."""
    async with make_bench(lease_seconds=1, stall_seconds=60) as bench:
        orders = bench.app.topic("orders", int, partitions=1)
        runs: list[tuple[int, int]] = []

        @orders.subscribe(group="billing")
        async def handle(number: int, ctx: Context) -> None:
            runs.append((number, ctx.epoch))
            stand_still(1.2)

        await orders.publish("key", 0)
        await bench.work_until_idle()
        assert runs == [(0, 1)]
        assert len(bench.faults.calls["register"]) == 1


@in_virtual_time
async def test_a_slow_handler_on_a_turning_loop_is_no_stall(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """By default 300 seconds without a turn of the loop end the process."""
    orders = bench.app.topic("orders", int, partitions=1)
    epochs: list[int] = []

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        await anyio.sleep(400)
        epochs.append(ctx.epoch)

    await orders.publish("key", 0)
    await bench.work_until_idle()
    assert epochs == [1]
    assert caplog.text == ""

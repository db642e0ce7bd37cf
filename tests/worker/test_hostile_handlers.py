"""Whatever a handler raises is its own record's failure; the worker lives, and so do the other keys."""

import asyncio
import logging
from collections.abc import Callable

import anyio
import pytest

from streams import Context, Retry
from tests.worker.bench import Bench, at_once
from tests.worker.setting import MEMORY, SQLITE, TRIO, in_settings


class Unprintable(Exception):
    """Its message cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no message")


class NoText(Exception):
    """Its message is not text."""

    def __str__(self) -> str:
        return 7  # type: ignore[return-value]


class Exits(Exception):
    """Asking for its message ends the program."""

    def __str__(self) -> str:
        raise SystemExit(1)


class Secretive(Exception):
    """It cannot even be asked for its notes."""

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise RuntimeError("no notes")


def recurse() -> None:
    recurse()


HOSTILE: list[tuple[Callable[[], BaseException], str]] = [
    (lambda: SystemExit(1), "SystemExit: 1"),
    (lambda: RecursionError("too deep"), "RecursionError: too deep"),
    (lambda: MemoryError(), "MemoryError"),
    (lambda: asyncio.CancelledError(), "CancelledError"),
    (lambda: StopIteration(), "RuntimeError: coroutine raised StopIteration"),
    (lambda: BaseException("of no kind"), "BaseException: of no kind"),
    (
        lambda: BaseExceptionGroup("several", [SystemExit(1), ValueError("one")]),
        "BaseExceptionGroup: several (2 sub-exceptions)",
    ),
    (lambda: Unprintable(), "Unprintable: (its message cannot be read)"),
    (lambda: Exits(), "Exits: (its message cannot be read)"),
    (lambda: NoText(), "NoText: (its message cannot be read)"),
    (lambda: ValueError("a lone \ud800 surrogate"), "ValueError: a lone \\ud800 surrogate"),
    (lambda: ValueError("a NUL \0 inside"), "ValueError: a NUL \\0 inside"),
    (lambda: ValueError("one\ntwo"), "ValueError: one"),
    (lambda: ValueError(""), "ValueError"),
    (lambda: ValueError("x" * 1_000_000), "ValueError: " + "x" * 988),
]


@in_settings(MEMORY, SQLITE, TRIO)
async def test_whatever_a_handler_raises_is_a_failed_attempt(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    attempts: list[tuple[int, int]] = []
    handled: list[int] = []

    @orders.subscribe(group="billing", concurrency=2, retry=Retry(attempts=2, wait=at_once))
    async def handle(number: int, ctx: Context) -> None:
        if ctx.key == "good":
            handled.append(number)
            return
        attempts.append((number, ctx.attempt))
        raise HOSTILE[number][0]()

    await orders.publish_many((f"bad-{n}", n) for n in range(len(HOSTILE)))
    await orders.publish_many(("good", n) for n in range(100))
    await bench.work_until_idle()
    assert sorted(attempts) == [(number, attempt) for number in range(len(HOSTILE)) for attempt in (1, 2)]
    assert handled == list(range(100))
    letters = {letter.key: letter for letter in await bench.app.admin.dead.list()}
    for number, (_, error) in enumerate(HOSTILE):
        letter = letters[f"bad-{number}"]
        assert letter.error == error
        assert (letter.attempts, letter.cause) == (2, "exhausted")
        assert 0 < len(letter.traceback) < 25_000
        assert "\0" not in letter.traceback
        letter.traceback.encode()


async def test_an_error_whose_traceback_cannot_be_written_is_a_failed_attempt(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "streams")  # Handlers of the log cannot write it down either, and say so.
    orders = bench.app.topic("orders", int)
    handled: list[int] = []

    @orders.subscribe(group="billing", retry=Retry(attempts=2, wait=at_once))
    async def handle(number: int) -> None:
        handled.append(number)
        if number == 0:
            raise Secretive("in its own way")

    await orders.publish_many(("key", n) for n in range(2))
    await bench.work_until_idle()
    assert handled == [0, 0, 1]
    (letter,) = await bench.app.admin.dead.list()
    assert letter.error == "Secretive: in its own way"
    assert letter.traceback == "Secretive: (its traceback cannot be written)"


async def test_a_recursion_without_end_is_a_failed_attempt(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)

    @orders.subscribe(group="billing", retry=Retry(attempts=1))
    async def handle(number: int) -> None:
        if number == 0:
            recurse()

    await orders.publish_many(("key", n) for n in range(2))
    await bench.work_until_idle()
    (letter,) = await bench.app.admin.dead.list()
    assert letter.error.startswith("RecursionError")


@in_settings(MEMORY)
async def test_a_cancelled_task_that_a_handler_awaits_is_a_failed_attempt(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    attempts: list[int] = []

    @orders.subscribe(group="billing", retry=Retry(wait=at_once))
    async def handle(number: int, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        task = asyncio.ensure_future(anyio.sleep_forever())
        if ctx.attempt < 3:
            task.cancel()
            await task
        else:
            task.cancel()

    await orders.publish("key", 0)
    await bench.work_until_idle()
    assert attempts == [1, 2, 3]


@in_settings(MEMORY)
async def test_a_handler_that_cancels_its_own_task_does_not_block_its_key(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    handled: list[tuple[int, int]] = []

    @orders.subscribe(group="billing", concurrency=1, retry=Retry(wait=at_once))
    async def handle(number: int, ctx: Context) -> None:
        handled.append((number, ctx.attempt))
        if len(handled) == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await anyio.lowlevel.checkpoint()

    await orders.publish_many(("key", n) for n in range(2))
    await bench.work_until_idle()
    assert [number for number, _ in handled] == [0, 0, 1]


@in_settings(MEMORY, TRIO)
async def test_a_timeout_of_the_handlers_own_is_a_failed_attempt(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    attempts: list[int] = []

    @orders.subscribe(group="billing", retry=Retry(wait=at_once))
    async def handle(number: int, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        with anyio.fail_after(0 if ctx.attempt == 1 else 10):
            await anyio.lowlevel.checkpoint()

    await orders.publish("key", 0)
    await bench.work_until_idle()
    assert attempts == [1, 2]


@pytest.mark.parametrize("what", ["wait", "stop"])
async def test_a_retry_strategy_that_fails_or_answers_nonsense_harms_nobody(bench: Bench, what: str) -> None:
    orders = bench.app.topic("orders", int)
    attempts: list[int] = []

    def strategy(state: object) -> float:
        raise RuntimeError("no strategy")

    def nonsense(state: object) -> float:
        return float("nan")

    retry = Retry(attempts=2, wait=strategy) if what == "wait" else Retry(attempts=2, stop=strategy, wait=nonsense)  # type: ignore[arg-type]

    @orders.subscribe(group="billing", retry=retry)
    async def handle(number: int, ctx: Context) -> None:
        attempts.append(ctx.attempt)
        raise ValueError("never")

    await orders.publish("key", 0)
    await bench.work_until_idle()
    assert attempts == [1, 2]
    assert [letter.attempts for letter in await bench.app.admin.dead.list()] == [2]

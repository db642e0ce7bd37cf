"""What a worker writes to the log: the tracebacks of handlers, and never a payload."""

import logging
from enum import Enum

import anyio
import pytest

from partition import Lease
from streams import Context, DeadLetter, Discard, Retry, RetryLater
from streams.stores.rows import MemberRow, Publication
from tests.worker.bench import Bench, at_once, until

SECRET = "4111-1111-1111-1111"


class Card(Enum):
    """What decodes to nothing else; the decoder's own message quotes what it finds."""

    NONE = "none"


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.DEBUG) -> list[str]:
    return [entry.getMessage() for entry in caplog.records if entry.levelno >= level and entry.name == "streams"]


def everything(caplog: pytest.LogCaptureFixture) -> str:
    """All that handlers of the log would write, tracebacks too."""
    return "\n".join(caplog.handler.format(entry) for entry in caplog.records)


@pytest.fixture(autouse=True)
def _debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "streams")


async def test_the_traceback_of_a_failing_handler_is_logged_at_each_attempt_and_no_payload(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    orders = bench.app.topic("orders", str, partitions=1)

    @orders.subscribe(group="billing", retry=Retry(attempts=3, wait=at_once))
    async def charge(card: str) -> None:
        raise ValueError("no such customer")

    await orders.publish("customer-7", SECRET, headers={"card": SECRET})
    await bench.work_until_idle()
    assert lines(caplog, logging.WARNING) == [
        "orders/0 of group billing, epoch 1 offset 1: attempt 1 of 3 failed and is repeated in 0.0 s",
        "orders/0 of group billing, epoch 1 offset 1: attempt 2 of 3 failed and is repeated in 0.0 s",
        "orders/0 of group billing, epoch 1 offset 1: exhausted after 3 attempts, now in the dead letters",
    ]
    assert everything(caplog).count("ValueError: no such customer") == 3
    assert everything(caplog).count("in charge") == 3
    assert SECRET not in everything(caplog)


async def test_an_undecodable_record_is_logged_without_its_payload(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    orders = bench.app.topic("orders", Card, partitions=1)

    @orders.subscribe(group="billing")
    async def charge(card: Card) -> None:
        pass

    await orders.publish("customer-7", Card.NONE)
    topic = await bench.store.topic("orders")
    assert topic is not None
    await bench.store.append([Publication(topic.id, 0, "customer-7", f'"{SECRET}"'.encode(), None)])
    await bench.work_until_idle()
    (letter,) = await bench.app.admin.dead.list()
    assert SECRET in letter.error, "or this would test nothing"
    assert lines(caplog, logging.WARNING) == [
        "orders/0 of group billing, epoch 1 offset 2: undecodable after 0 attempts, now in the dead letters"
    ]
    assert SECRET not in everything(caplog)


async def test_a_refused_settlement_is_logged_without_payloads(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    orders = bench.app.topic("orders", str, partitions=1)
    running, go_on = anyio.Event(), anyio.Event()

    @orders.subscribe(group="billing")
    async def charge(card: str, ctx: Context) -> None:
        ctx.publish(orders, "customer-7", SECRET)
        running.set()
        await go_on.wait()

    await orders.publish("customer-7", SECRET)
    async with bench.at_work() as job:
        await running.wait()
        one = await bench.partition("billing")
        await bench.store.register(MemberRow("thief", "elsewhere", 1, (), 3_600_000_000))
        await bench.store.release([Lease("billing", "orders", 0, one.owner, one.epoch)])
        await bench.store.acquire("thief", [("billing", "orders", 0)])
        go_on.set()
        await until(lambda: said(caplog, "the lease has passed on; what was in flight is dropped"))
        assert await job.finish()
    assert SECRET not in everything(caplog)


async def said(caplog: pytest.LogCaptureFixture, text: str) -> bool:
    return text in caplog.text


async def test_what_a_handler_decides_about_its_record_is_logged_without_its_payload(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    orders = bench.app.topic("orders", str, partitions=1)
    outcomes: list[Exception] = [RetryLater(0), Discard("stale"), DeadLetter("no such customer")]

    @orders.subscribe(group="billing")
    async def charge(card: str) -> object:
        return outcomes.pop(0)

    await orders.publish_many(("customer-7", SECRET) for _ in range(2))
    await bench.work_until_idle()
    assert [line for line in lines(caplog) if "offset" in line] == [
        "orders/0 of group billing, epoch 1 offset 1: discarded: stale",
        "orders/0 of group billing, epoch 1 offset 2: rejected after 1 attempts, now in the dead letters",
    ]
    assert SECRET not in everything(caplog)


async def test_an_ordinary_life_is_told_in_a_few_lines(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "streams")
    orders = bench.app.topic("orders", str, partitions=4)

    @orders.subscribe(group="billing")
    async def charge(card: str) -> None:
        pass

    await orders.publish_many((f"customer-{n}", SECRET) for n in range(100))
    await bench.work_until_idle()
    member = lines(caplog)[0].split(" ")[1].rstrip(":")
    assert lines(caplog) == [
        f"member {member}: started",
        f"member {member}: acquired orders/0-3 of group billing",
        f"member {member}: left",
    ]
    assert SECRET not in everything(caplog)

"""What a handler learns of its record, and what it publishes along with settling it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest

from streams import Context, DeadLetter, Discard, Retry, StreamsError, UnknownTopic
from streams.errors import InvalidPayload
from streams.stores.rows import Cursor
from tests.worker.bench import Bench, at_once
from tests.worker.setting import MEMORY, SQLITE, in_all, in_settings


@in_settings(MEMORY, SQLITE)  # In virtual time the database's clock starts in 1970.
async def test_the_context_says_where_a_record_is_and_what_came_with_it(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=4)
    seen: list[Context] = []

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        seen.append(ctx)

    before = datetime.now(UTC) - timedelta(seconds=1)
    receipt = await orders.publish("customer-7", 42, headers={"trace": "abc"})
    await bench.work_until_idle()
    (ctx,) = seen
    assert (ctx.topic, ctx.partition, ctx.offset) == receipt
    assert (ctx.group, ctx.key, ctx.payload, ctx.headers) == ("billing", "customer-7", b"42", {"trace": "abc"})
    assert (ctx.attempt, ctx.is_final_attempt, ctx.epoch) == (1, False, 1)
    assert before < ctx.published_at < datetime.now(UTC) + timedelta(seconds=1)
    assert ctx.published_at.tzinfo is UTC


async def test_a_record_without_key_and_headers_has_none(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    seen: list[tuple[str | None, dict[str, str]]] = []

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        seen.append((ctx.key, ctx.headers))

    await orders.publish(None, 42)
    await bench.work_until_idle()
    assert seen == [(None, {})]


async def test_the_epoch_is_one_higher_whenever_the_partition_is_acquired(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    epochs: list[int] = []

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        epochs.append(ctx.epoch)

    for number in range(3):
        await orders.publish("key", number)
        await bench.work_until_idle()
    assert epochs == [1, 2, 3]


async def test_the_lease_is_not_lost_while_the_worker_holds_it(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    lost: list[bool] = []

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        lost.append(ctx.lease_lost)

    await orders.publish("key", 42)
    await bench.work_until_idle()
    assert lost == [False]


@in_all
async def test_what_a_handler_publishes_is_written_once_with_or_without_await(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    invoices = bench.app.topic("invoices", int, partitions=1)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        ctx.publish(invoices, ctx.key, number, headers={"of": "it"})
        await ctx.publish("invoices", None, -number)

    await orders.publish_many((f"key-{number}", number) for number in range(1, 101))
    await bench.work_until_idle()
    row = await bench.store.topic("invoices")
    assert row is not None
    ((records, *_),) = await bench.store.fetch([Cursor(row.id, 0, 0, (), 1_000, 1 << 30)])
    assert sorted(int(record.payload) for record in records) == [n for n in range(-100, 101) if n]
    assert all((record.key is None) == (int(record.payload) < 0) for record in records)
    assert {record.headers for record in records if record.key} == {b'{"of":"it"}'}


@in_all
async def test_what_a_failed_attempt_published_is_dropped(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    invoices = bench.app.topic("invoices", int, partitions=1)

    @orders.subscribe(group="billing", retry=Retry(attempts=3, wait=at_once))
    async def handle(number: int, ctx: Context) -> None:
        ctx.publish(invoices, ctx.key, number * 10 + ctx.attempt)
        if number == 1 or ctx.attempt < 3:
            raise ValueError("not yet")

    await orders.publish_many((f"key-{number}", number) for number in (1, 2))
    await bench.work_until_idle()
    assert await bench.published("invoices") == [b"23"]


@pytest.mark.parametrize("outcome", [Discard("no"), DeadLetter("no")], ids=lambda outcome: type(outcome).__name__)
@pytest.mark.parametrize("how", ["raised", "returned"])
async def test_what_a_record_published_that_is_given_up_is_dropped(bench: Bench, outcome: Exception, how: str) -> None:
    orders = bench.app.topic("orders", int)
    invoices = bench.app.topic("invoices", int, partitions=1)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> object:
        ctx.publish(invoices, ctx.key, number)
        if how == "raised":
            raise outcome
        return outcome

    await orders.publish("key", 1)
    await bench.work_until_idle()
    assert (await bench.status("billing")).lag == 0
    assert await bench.published("invoices") == []


@in_all
async def test_the_records_of_a_key_keep_their_order_through_two_topics(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=4)
    doubled = bench.app.topic("doubled", int, partitions=3)
    found: dict[str | None, list[int]] = {}

    @orders.subscribe(group="double", retry=Retry(wait=at_once))
    async def double(number: int, ctx: Context) -> None:
        ctx.publish(doubled, ctx.key, 2 * number)
        if number % 7 == ctx.attempt:
            raise ValueError("not yet")
        if number % 3:
            await anyio.lowlevel.checkpoint()
        ctx.publish(doubled, ctx.key, 2 * number + 1)

    @doubled.subscribe(group="collect")
    async def collect(number: int, ctx: Context) -> None:
        found.setdefault(ctx.key, []).append(number)

    await orders.publish_many((f"key-{k}", n) for n in range(100) for k in range(10))
    await bench.work_until_idle()
    assert found == {f"key-{k}": list(range(200)) for k in range(10)}


async def test_publishing_after_the_attempt_has_ended_is_an_error(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    invoices = bench.app.topic("invoices", int, partitions=1)
    kept: list[Context] = []

    @orders.subscribe(group="billing", retry=Retry(wait=at_once))
    async def handle(number: int, ctx: Context) -> None:
        kept.append(ctx)
        if ctx.attempt == 1:
            raise ValueError("not yet")

    await orders.publish("key", 1)
    await bench.work_until_idle()
    assert len(kept) == 2
    for ctx in kept:
        with pytest.raises(StreamsError, match="this attempt has ended"):
            ctx.publish(invoices, "key", 1)
    assert await bench.published("invoices") == []


@pytest.mark.parametrize(
    ("topic", "payload", "error"), [("unheard-of", 1, UnknownTopic), ("invoices", "not a number", InvalidPayload)]
)
async def test_what_cannot_be_published_is_an_error_at_the_call_and_publishes_nothing(
    bench: Bench, topic: str, payload: Any, error: type[Exception]
) -> None:
    orders = bench.app.topic("orders", int)
    bench.app.topic("invoices", int, partitions=1)
    raised: list[Exception] = []

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        try:
            ctx.publish(topic, ctx.key, payload)
        except Exception as caught:
            raised.append(caught)

    await orders.publish("key", 1)
    await bench.work_until_idle()
    assert [type(one) for one in raised] == [error]
    assert await bench.published("invoices") == []


async def test_a_topic_declared_after_the_worker_started_cannot_be_published_to_by_its_handlers(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    raised: list[Exception] = []

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        late = bench.app.topic("late", int)
        try:
            ctx.publish(late, ctx.key, number)
        except UnknownTopic as caught:
            raised.append(caught)

    await orders.publish("key", 1)
    await bench.work_until_idle()
    assert [str(one) for one in raised] == ["topic 'late' was declared after the worker started; declare it before"]


async def test_what_is_published_with_the_app_stays_also_when_the_attempt_fails(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    invoices = bench.app.topic("invoices", int, partitions=1)

    @orders.subscribe(group="billing", retry=Retry(attempts=1))
    async def handle(number: int, ctx: Context) -> None:
        await invoices.publish(ctx.key, number)
        raise ValueError("never")

    await orders.publish("key", 1)
    await bench.work_until_idle()
    assert await bench.published("invoices") == [b"1"]


async def test_a_handler_without_a_second_parameter_gets_the_payload_alone(bench: Bench) -> None:
    orders = bench.app.topic("orders", int)
    seen: list[Any] = []

    @orders.subscribe(group="billing")
    async def handle(number: int, extra: str = "untouched") -> None:
        seen.append((number, extra))

    await orders.publish("key", 1)
    await bench.work_until_idle()
    assert seen == [(1, "untouched")]


async def test_a_handler_publishes_no_more_than_a_transaction_carries(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.context.LARGEST_PAYLOAD", 100)
    orders = bench.app.topic("orders", int, partitions=1)
    copies = bench.app.topic("copies", bytes, partitions=1)

    @orders.subscribe(group="billing", retry=Retry(attempts=1))
    async def handle(number: int, ctx: Context) -> None:
        for _ in range(number):
            ctx.publish(copies, None, bytes(50))

    await orders.publish_many([("two", 2), ("three", 3)])
    await bench.work_until_idle()
    (letter,) = await bench.store.dead()
    assert letter.key == "three"
    assert "150 bytes" in letter.error
    (topic,) = [one for one in await bench.store.topics() if one.topic == "copies"]
    assert topic.records == 2

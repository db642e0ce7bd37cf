"""A subscription is checked when it is declared: its options, its group, and that nobody has the pair already."""

from typing import Any

import pytest

from streams import Context, Retry, SettingsError, Streams, Topic
from streams.retry import DEFAULT_RETRY
from streams.subscription import Subscription


@pytest.fixture
def app() -> Streams:
    return Streams("memory://")


@pytest.fixture
def orders(app: Streams) -> Topic[int]:
    return app.topic("orders", int)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def handle(number: int) -> str:
    return f"handled {number}"


def subscriptions(app: Streams) -> dict[tuple[str, str], Subscription]:
    return {one.pair: one for one in app._choose(None, None)}


async def test_the_function_stays_callable(orders: Topic[int]) -> None:
    handler = orders.subscribe(group="billing")(handle)
    assert handler is handle
    assert await handler(7) == "handled 7"


def test_the_app_subscribes_by_name_and_by_handle(app: Streams, orders: Topic[int]) -> None:
    app.subscribe("orders", group="a")(handle)
    app.subscribe(orders, group="b")(handle)
    orders.subscribe(group="c")(handle)
    assert subscriptions(app).keys() == {("a", "orders"), ("b", "orders"), ("c", "orders")}
    assert {one.topic for one in subscriptions(app).values()} == {orders}
    assert {one.handler for one in subscriptions(app).values()} == {handle}


def test_without_options_the_defaults_count(app: Streams, orders: Topic[int]) -> None:
    orders.subscribe(group="billing")(handle)
    (one,) = subscriptions(app).values()
    assert (one.start, one.order, one.concurrency, one.retry) == ("earliest", "key", 64, DEFAULT_RETRY)
    assert Retry(attempts=12, wait=None, stop=None) == DEFAULT_RETRY


def test_options_are_taken(app: Streams, orders: Topic[int]) -> None:
    retry = Retry(attempts=3)
    orders.subscribe(group="a", start="latest", order="partition", concurrency=1, retry=retry)(handle)
    app.subscribe("orders", group="b", start="latest", order="none", concurrency=10_000, retry=retry)(handle)
    found = [(one.start, one.order, one.concurrency, one.retry) for one in subscriptions(app).values()]
    assert found == [("latest", "partition", 1, retry), ("latest", "none", 10_000, retry)]


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("start", "newest", "start='newest' is not one of 'earliest', 'latest'"),
        ("start", None, "start=None is not one of"),
        ("start", ["earliest"], "start=.* is not one of"),
        ("order", "topic", "order='topic' is not one of 'key', 'partition', 'none'"),
        ("order", None, "order=None is not one of"),
        ("concurrency", 0, "concurrency=0 is not a number from 1 to 10000"),
        ("concurrency", -1, "concurrency=-1 is not"),
        ("concurrency", 10_001, "concurrency=10001 is not"),
        ("concurrency", 1.5, "concurrency=1.5 is not"),
        ("concurrency", True, "concurrency=True is not"),
        ("concurrency", "8", "concurrency='8' is not"),
        ("concurrency", None, "concurrency=None is not"),
        ("retry", 3, r"retry= takes a Retry\(attempts=…\), not int"),
        ("retry", None, r"retry= takes a Retry\(attempts=…\), not NoneType"),
    ],
)
def test_a_bad_option_is_an_error_that_names_handler_and_option(
    app: Streams, orders: Topic[int], option: str, value: Any, sentence: str
) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(SettingsError, match=f"^handler 'handle': {sentence}"):
        orders.subscribe(group="billing", **options)(handle)
    with pytest.raises(SettingsError):
        app.subscribe("orders", group="billing", **options)(handle)
    orders.subscribe(group="billing")(handle)


def test_a_group_has_one_handler_for_a_topic(app: Streams, orders: Topic[int]) -> None:
    orders.subscribe(group="billing")(handle)
    with pytest.raises(SettingsError, match="group 'billing' of topic 'orders' has a handler already"):
        app.subscribe("orders", group="billing")(handle)


def test_one_handler_may_serve_several_groups_and_topics(app: Streams, orders: Topic[int]) -> None:
    clicks = app.topic("clicks", int)
    orders.subscribe(group="a")(handle)
    orders.subscribe(group="b")(handle)
    clicks.subscribe(group="a")(handle)
    assert len(subscriptions(app)) == 3


def test_another_app_may_have_the_same_group_and_topic(orders: Topic[int]) -> None:
    orders.subscribe(group="billing")(handle)
    Streams("memory://").topic("orders", int).subscribe(group="billing")(handle)


def test_options_are_given_by_name(app: Streams, orders: Topic[int]) -> None:
    with pytest.raises(TypeError):
        app.subscribe("orders", "billing")  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        orders.subscribe("billing")  # type: ignore[call-arg]


async def test_a_handler_is_called_with_payload_and_context(app: Streams) -> None:
    letters = app.topic("letters", str, partitions=1)
    seen: list[object] = []

    @letters.subscribe(group="plain")
    async def plain(letter: str) -> None:
        seen.append(letter)

    @letters.subscribe(group="with-context")
    async def with_context(letter: str, ctx: Context) -> None:
        seen.append((letter, ctx.topic, ctx.key, ctx.offset, ctx.group))

    async with app:
        await letters.publish("k", "a")
        await app.work(until_idle=True)
    assert sorted(seen, key=str) == [("a", "letters", "k", 1, "with-context"), "a"]

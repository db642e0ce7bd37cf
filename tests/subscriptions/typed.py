"""Handlers and payloads as mypy sees them: read by test_typing.py, never imported.

What is wrong is marked as ignored, and mypy says so when it finds nothing to ignore.
"""

import asyncio
from typing import Any, TypedDict
from uuid import UUID

import msgspec

from streams import Context, Streams


class Order(msgspec.Struct):
    id: int


class Click(TypedDict):
    url: str


class Placed(msgspec.Struct, tag=True):
    id: int


class Cancelled(msgspec.Struct, tag=True):
    id: int


app = Streams()
orders = app.topic("orders", Order)
clicks = app.topic("clicks", Click)
events = app.topic("events", Placed | Cancelled)
counts = app.topic("counts", dict[str, int])


# A handler takes the topic's payload, and more if it likes.


@orders.subscribe(group="a")
async def right(order: Order) -> None: ...


@orders.subscribe(group="b")
async def with_context(order: Order, ctx: Context) -> int:
    return order.id


@orders.subscribe(group="c")
async def of_anything(order: object, *, retries: int = 3) -> None: ...


@app.subscribe(orders, group="d")
async def by_the_app(order: Order) -> None: ...


@app.subscribe("orders", group="e")
async def by_name(order: Order) -> None: ...


@events.subscribe(group="a")
async def of_one_or_the_other(event: Placed | Cancelled) -> None: ...


class Handlers:
    async def method(self, order: Order) -> None: ...

    async def __call__(self, order: Order, ctx: Context) -> None: ...


orders.subscribe(group="f")(Handlers().method)
orders.subscribe(group="g")(Handlers())


# One that takes something else is refused.


@orders.subscribe(group="h")  # type: ignore[arg-type]
async def of_another_type(click: Click) -> None: ...


@app.subscribe(orders, group="i")  # type: ignore[arg-type]
async def of_another_type_by_the_app(number: int) -> None: ...


@orders.subscribe(group="j")  # type: ignore[arg-type]
async def of_nothing() -> None: ...


@orders.subscribe(group="k")  # type: ignore[type-var]
def not_async(order: Order) -> None: ...


@orders.subscribe(group="l", order="topic")  # type: ignore[arg-type]
async def in_an_unknown_order(order: Order) -> None: ...


# The function stays what it was.


async def call_them(ctx: Context) -> int:
    await right(Order(1))
    await right(Click(url="/"))  # type: ignore[arg-type]
    with_context(Order(1))  # type: ignore[call-arg, unused-coroutine]
    await asyncio.create_task(right(Order(1)))
    return await with_context(Order(1), ctx)


# A payload is of the topic's type, and a key of one of four.


async def publish(anything: Any, identity: UUID) -> None:
    await orders.publish("customer-7", Order(1))
    await orders.publish(7, Order(1), headers={"trace": "abc"})
    await orders.publish(identity, Order(1))
    await orders.publish(None, anything)
    await app.publish(orders, "customer-7", Order(1))
    await app.publish("orders", "customer-7", Order(1))
    await clicks.publish("a", {"url": "/"})
    await events.publish("a", Placed(1))
    await counts.publish("a", {"b": 1})
    await orders.publish_many([("a", Order(1)), ("b", Order(2))])
    await orders.publish_many(("a", Order(number), {"n": "1"}) for number in range(3))

    await orders.publish("a", Click(url="/"))  # type: ignore[arg-type]
    await orders.publish("a", {"id": 1})  # type: ignore[arg-type]
    await app.publish(orders, "a", 1)  # type: ignore[misc]
    await clicks.publish("a", {"id": 1})  # type: ignore[typeddict-item, typeddict-unknown-key]
    await counts.publish("a", {"b": "c"})  # type: ignore[dict-item]
    await orders.publish(1.5, Order(1))  # type: ignore[arg-type]
    await orders.publish(b"a", Order(1))  # type: ignore[arg-type]
    await orders.publish("a", Order(1), headers={"n": 1})  # type: ignore[dict-item]
    await orders.publish_many([("a", 1)])  # type: ignore[list-item]
    await orders.publish_many([Order(1)])  # type: ignore[list-item]

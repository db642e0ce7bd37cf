"""Two topics in a row: orders become invoices, in order per customer and once each, also when an attempt fails."""

import os
from collections import defaultdict
from tempfile import TemporaryDirectory

import anyio
import msgspec

from streams import Context, Streams

CUSTOMERS, ORDERS = 50, 20


class Order(msgspec.Struct):
    number: int


class Invoice(msgspec.Struct):
    order_number: int


app = Streams()
orders = app.topic("orders", Order)
invoices = app.topic("invoices", Invoice, partitions=4)
received: dict[str | None, list[int]] = defaultdict(list)


@orders.subscribe(group="billing")
async def bill(order: Order, ctx: Context) -> None:
    """The invoice is committed with the order's settlement: what an attempt that fails published, nobody ever sees."""
    ctx.publish(invoices, ctx.key, Invoice(order.number))
    if ctx.key == "customer-7" and order.number == 10 and ctx.attempt == 1:
        raise ConnectionError("the tax office does not answer")


@invoices.subscribe(group="mail")
async def mail(invoice: Invoice, ctx: Context) -> None:
    """The second stage writes down what it gets, in the order in which it gets it."""
    received[ctx.key].append(invoice.order_number)


async def main() -> None:
    async with app:
        for number in range(ORDERS):
            await orders.publish_many((f"customer-{c}", Order(number)) for c in range(CUSTOMERS))
        await app.work(until_idle=True)
    assert received == {f"customer-{c}": list(range(ORDERS)) for c in range(CUSTOMERS)}
    print(f"{CUSTOMERS * ORDERS} orders, as many invoices: every customer's in order, and each once")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        os.environ.setdefault("STREAMS_URL", f"sqlite:///{folder}/pipeline.db")
        anyio.run(main)

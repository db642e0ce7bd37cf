"""The quickstart of the README: three orders of one customer, billed in order."""

import anyio
import msgspec

from streams import Context, Streams


class Order(msgspec.Struct):
    id: int
    total: float


app = Streams()  # $STREAMS_URL, else sqlite:///streams.db
orders = app.topic("orders", Order)


@orders.subscribe(group="billing")
async def bill(order: Order, ctx: Context) -> None:
    print(f"{ctx.key}: order {order.id}, {order.total:.2f}")


async def main() -> None:
    async with app:
        for number in range(1, 4):
            await orders.publish("customer-7", Order(number, 19.99))
        await app.work(until_idle=True)


if __name__ == "__main__":
    anyio.run(main)

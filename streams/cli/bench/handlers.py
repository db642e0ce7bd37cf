"""The app that the benchmark's workers run."""

import anyio

from streams import Context, Streams
from streams.cli.bench.errand import from_environment
from streams.cli.bench.notes import Writer
from streams.cli.bench.order import Order
from streams.cli.child import end_with_parent

errand = from_environment()
end_with_parent()

app = Streams()
orders = app.topic(errand.topic, Order, partitions=errand.partitions)
notes = Writer(errand.notes)

if errand.each:

    @orders.subscribe(group=errand.group)
    async def note(order: Order, ctx: Context) -> None:
        """Note this start, and take as long as was asked for."""
        notes.write(ctx.partition, ctx.epoch, order.id)
        if errand.seconds:
            await anyio.sleep(errand.seconds)

else:
    begun = False

    @orders.subscribe(group=errand.group)
    async def nothing(order: Order) -> None:
        """Do nothing, but note the first start."""
        global begun
        if not begun:
            begun = True
            notes.write(0, 0, order.id)

"""Handling: a handler that does nothing, beside a bare loop that reads the same rows, decodes them and awaits it.

The worker runs in this process, as `app.work()` would, with its heart in a thread of its own; every round is a new
group, so it reads the whole log. The clock runs from the first call of the handler until all is settled: until the lag
is 0 for whoever looks into the database. The bare loop reads 500 rows at a time, and keeps no position.
"""

import gc
from collections.abc import Callable
from statistics import median

import anyio
import msgspec

from streams import Streams
from streams.cli.bench.figure import Figure, Target
from streams.cli.bench.order import PARTITIONS, Order
from streams.cli.bench.site import PATIENCE_SECONDS, Site
from streams.cli.bench.sizes import Sizes
from streams.clock import boottime
from streams.stores.yardstick import Bare

READ_ROWS = 500
LOOK_SECONDS = 0.01
LAST_LOOK_SECONDS = 0.002
TARGETS = {"sqlite": Target("at most", 15, goal=10), "postgresql": Target("at most", 4, goal=3)}


class Nothing:
    """A handler that does nothing but count."""

    def __init__(self) -> None:
        self.count = 0
        self.began = 0.0

    async def handle(self, order: Order) -> None:
        """One order."""
        if not self.count:
            self.began = boottime()
        self.count += 1


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """Rates of both, and how many times slower ours is."""
    topic = site.topic("orders")
    await site.fill(topic, sizes.handle_records)
    ours, bares = [], []
    async with site.bare() as bare:
        for turn in range(sizes.handle_rounds):
            bares.append(await _loop(bare, topic))
            ours.append(await work(site, topic, f"round-{turn + 1}", sizes.handle_records))
            tell(f"round {turn + 1}: {ours[-1]:,.0f} a second, bare {bares[-1]:,.0f}")
    slower = median(other / one for one, other in zip(ours, bares, strict=True))
    return [
        Figure("worker", median(ours), "records/s"),
        Figure("bare loop", median(bares), "records/s"),
        Figure("times slower than the bare loop", slower, "", TARGETS[site.kind]),
    ]


async def _loop(bare: Bare, topic: str) -> float:
    """Records a second of the bare loop."""
    decode = msgspec.json.Decoder(Order).decode
    nothing = Nothing()
    handle = nothing.handle
    gc.collect()
    started = boottime()
    async for rows in bare.read(topic, READ_ROWS):
        for _, payload in rows:
            await handle(decode(payload))
    return nothing.count / (boottime() - started)


async def work(site: Site, topic: str, group: str, records: int) -> float:
    """Records a second of a worker."""
    app = site.app()
    nothing = Nothing()
    app.topic(topic, Order, partitions=PARTITIONS).subscribe(group=group)(nothing.handle)
    gc.collect()
    async with app, anyio.create_task_group() as tasks:
        tasks.start_soon(app.work)
        with anyio.fail_after(PATIENCE_SECONDS + records / 1_000):
            while nothing.count < records:  # noqa: ASYNC110 - an event would cost the handler more than a count
                await anyio.sleep(LOOK_SECONDS)
            while await _lag(site, app, topic, group):  # noqa: ASYNC110 - the database sets no event
                await anyio.sleep(LAST_LOOK_SECONDS)
        ended = boottime()
        tasks.cancel_scope.cancel()
    return records / (ended - nothing.began)


async def _lag(site: Site, app: Streams, topic: str, group: str) -> int:
    status = await site.status(app, topic, group)
    assert status is not None
    return status.lag

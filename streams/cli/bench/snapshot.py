"""Snapshot: how handling does while somebody's repeatable-read snapshot stays open for two minutes.

Meanwhile nothing that is updated or deleted can be cleared away, and a worker that went over what it left behind would
become slower and slower. One worker, in this process, handles throughout: bursts, whose rate is measured, and between
them a thousand records a second, of which each settlement has a few. Of a burst all records are published before its
first handler may run; the clock runs from then until all is settled.
"""

import gc
from collections.abc import Callable
from statistics import median

import anyio

from streams import Streams, Topic
from streams.cli.bench.figure import Figure, Target
from streams.cli.bench.order import PARTITIONS, Order, items
from streams.cli.bench.site import Site
from streams.cli.bench.sizes import Sizes
from streams.clock import boottime

GROUP = "snapshot"
FEW = 20
FEW_SECONDS = 0.02
LOOK_SECONDS = 0.002


class Gate:
    """A handler that does nothing once it is let through."""

    def __init__(self) -> None:
        self.shut = False
        self._opened = anyio.Event()

    async def handle(self, order: Order) -> None:
        """One order."""
        if self.shut:
            await self._opened.wait()

    def close(self) -> None:
        """Let nobody through."""
        self.shut, self._opened = True, anyio.Event()

    def open(self) -> None:
        """Let all through."""
        self.shut = False
        self._opened.set()


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """Rates before, and at the end of the time for which the snapshot is held."""
    app = site.app()
    topic = app.topic(site.topic("orders"), Order, partitions=PARTITIONS)
    gate = Gate()
    topic.subscribe(group=GROUP)(gate.handle)

    async def bursts(when: str) -> list[float]:
        rates = []
        for turn in range(sizes.snapshot_rounds):
            rates.append(await _burst(site, app, topic, gate, sizes.snapshot_records))
            tell(f"{when}, burst {turn + 1}: {rates[-1]:,.0f} a second")
        return rates

    async with site.server() as bare, app, anyio.create_task_group() as tasks:
        tasks.start_soon(app.work)
        await _burst(site, app, topic, gate, sizes.snapshot_records)
        before = await bursts("before")
        async with bare.snapshot():
            since = boottime()
            await _trickle(topic, until=since + sizes.snapshot_seconds)
            held = boottime() - since
            tell(f"a snapshot has been held for {held:.0f} s")
            during = await bursts("held")
        tasks.cancel_scope.cancel()
    return [
        Figure("before", median(before), "records/s"),
        Figure(f"a snapshot held for {held:.0f} s", median(during), "records/s"),
        Figure("part of the rate before", median(during) / median(before), "", Target("at least", 0.8)),
    ]


async def _burst(site: Site, app: Streams, topic: Topic[Order], gate: Gate, records: int) -> float:
    """Records a second of the handling of so many."""
    gate.close()
    await topic.publish_many(items(0, records))
    gc.collect()
    gate.open()
    opened = boottime()
    ended = await site.until(lambda status: status.lag == 0, app, topic.name, GROUP, look_seconds=LOOK_SECONDS)
    return records / (ended - opened)


async def _trickle(topic: Topic[Order], *, until: float) -> None:
    """A few records at a time, which the worker handles as they come."""
    number = 0
    while boottime() < until:
        await topic.publish_many(items(number, number + FEW))
        number += FEW
        await anyio.sleep(FEW_SECONDS)

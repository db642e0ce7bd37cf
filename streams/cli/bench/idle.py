"""Idleness: what a worker process costs that has nothing to do.

Its processor time is the kernel's count; what it asks of the database is counted from outside. On SQLite that are the
transactions that write, since reading an own file costs nobody anything; and the beats, by the member's row, which says
until when it lives: a worker writes nothing else, so there are no more transactions than beats. On PostgreSQL it is
every statement, for each is a trip and a transaction, by the server's count of transactions in this database: what
others do in it meanwhile counts too.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack

import anyio

from streams import Streams
from streams.cli.bench.figure import Figure, Target
from streams.cli.bench.process import cpu_seconds
from streams.cli.bench.site import Site, is_shared
from streams.cli.bench.sizes import Sizes
from streams.clock import boottime
from streams.stores.yardstick import Bare

SETTLE_SECONDS = {"sqlite": 3.0, "postgresql": 12.0}
"""From the last acquisition until it is taken to be idle, at most. A PostgreSQL that rests tells what it has counted
after ten seconds."""
BEAT_LOOK_SECONDS = 0.1


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """Processor time, and what the database had to do."""
    topic = site.topic("orders")
    await site.fill(topic, 0)
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(site.app())
        worker = site.start(site.errand(topic))
        await site.until(is_shared(1), app, topic)
        if site.kind == "postgresql":
            await stack.aclose()  # What we have asked ourselves is counted at the latest when our connections end.
        await anyio.sleep(min(SETTLE_SECONDS[site.kind], sizes.idle_seconds))
        tell(f"the worker is left alone for {sizes.idle_seconds:g} s")
        before, began = cpu_seconds(worker.pid), boottime()
        async with site.bare() as bare:
            if site.kind == "sqlite":
                figures = await _writes(bare, app, worker.pid, sizes.idle_seconds)
            else:
                figures = await _statements(bare, sizes.idle_seconds)
        after, ended = cpu_seconds(worker.pid), boottime()
        await site.stop(worker)
    percent = None if before is None or after is None else 100 * (after - before) / (ended - began)
    return [Figure("processor of an idle worker", percent, "% of a core", Target("at most", 2)), *figures]


async def _statements(bare: Bare, seconds: float) -> list[Figure]:
    count = await bare.transactions(seconds)
    return [
        Figure("its statements", count, ""),
        Figure("statements a second", count / seconds, "", Target("at most", 3)),
    ]


async def _writes(bare: Bare, app: Streams, pid: int, seconds: float) -> list[Figure]:
    beats = 0

    async def count_beats() -> None:
        nonlocal beats
        alive_until = await _alive_until(app, pid)
        while True:
            await anyio.sleep(BEAT_LOOK_SECONDS)
            if (later := await _alive_until(app, pid)) != alive_until:
                alive_until, beats = later, beats + 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count_beats)
        commits = await bare.transactions(seconds)
        await anyio.sleep(2 * BEAT_LOOK_SECONDS)  # The last beat is seen as well, or there would be one too few.
        tasks.cancel_scope.cancel()
    return [
        Figure("its heartbeats", beats, ""),
        Figure("its write transactions", commits, ""),
        Figure("transactions beyond the heart's", max(0, commits - beats), "", Target("at most", 0)),
    ]


async def _alive_until(app: Streams, pid: int) -> int:
    return max((row.alive_until for row in await app.admin.members() if row.pid == pid), default=0)

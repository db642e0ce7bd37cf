"""Idleness: what a worker process costs that has nothing to do.

Its processor time is the kernel's count. Transactions are counted from outside, by the number that SQLite changes with
every commit of another connection, looked at every millisecond; beats by the member's row, which says until when it
lives. A worker writes nothing else, so there are no more transactions than beats.
"""

from collections.abc import Callable

import anyio

from streams import Streams
from streams.cli.bench.figure import Figure, Target
from streams.cli.bench.process import cpu_seconds
from streams.cli.bench.site import Site, is_shared
from streams.cli.bench.sizes import Sizes
from streams.clock import boottime
from streams.stores.bare import Bare

SETTLE_SECONDS = 3.0
"""From the last acquisition until it is taken to be idle, at most."""
LOOK_SECONDS = 0.001
BEAT_LOOK_SECONDS = 0.1


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """Processor time, transactions and beats."""
    topic = site.topic("orders")
    await site.fill(topic, 0)
    async with site.app() as app:
        worker = site.start(site.errand(topic))
        await site.until(is_shared(1), app, topic)
        await anyio.sleep(min(SETTLE_SECONDS, sizes.idle_seconds))
        tell(f"the worker is left alone for {sizes.idle_seconds:g} s")
        before, began = cpu_seconds(worker.pid), boottime()
        with site.bare() as bare:
            commits, beats = await _count(bare, app, worker.pid, sizes.idle_seconds)
        after, ended = cpu_seconds(worker.pid), boottime()
        await site.stop(worker)
    percent = None if before is None or after is None else 100 * (after - before) / (ended - began)
    return [
        Figure("processor of an idle worker", percent, "% of a core", Target("at most", 2)),
        Figure("its heartbeats", beats, ""),
        Figure("its write transactions", commits, ""),
        Figure("transactions beyond the heart's", max(0, commits - beats), "", Target("at most", 0)),
    ]


async def _count(bare: Bare, app: Streams, pid: int, seconds: float) -> tuple[int, int]:
    """Transactions of others, and beats of the worker, in so many seconds."""
    alive_until = await _alive_until(app, pid)
    version = bare.version()
    commits = beats = 0
    ends = boottime() + seconds
    look_at_beats = 0.0
    while (now := boottime()) < ends:
        if (seen := bare.version()) != version:
            version, commits = seen, commits + 1
        if now >= look_at_beats:
            look_at_beats = now + BEAT_LOOK_SECONDS
            if (later := await _alive_until(app, pid)) != alive_until:
                alive_until, beats = later, beats + 1
        await anyio.sleep(LOOK_SECONDS)
    return commits, beats + (await _alive_until(app, pid) != alive_until)


async def _alive_until(app: Streams, pid: int) -> int:
    return max((row.alive_until for row in await app.admin.members() if row.pid == pid), default=0)

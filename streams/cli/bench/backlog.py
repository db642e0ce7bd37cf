"""A long backlog: a worker process that handles all of many waiting records, beside one that has few.

The clock runs from when the worker is seen to hold all partitions until all is settled. So the start of the process
does not count, but the first reading does: of few records it is the better part, and few would look faster without it.
Peak memory is the most that the worker with many ever had resident.
"""

from collections.abc import Callable
from statistics import median

from streams import Streams
from streams.cli.bench.figure import Figure, Target
from streams.cli.bench.process import peak_megabytes
from streams.cli.bench.site import Site, is_shared
from streams.cli.bench.sizes import Sizes

FEWS = 3
"""Runs with few for each with many: they are short."""
LOOK_SECONDS = 0.005


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """Rates with few and with many, and the memory of the worker that had many."""
    few, many = site.topic("few"), site.topic("many")
    await site.fill(few, sizes.backlog_few)
    tell(f"{sizes.backlog_few:,} records wait in one topic")
    await site.fill(many, sizes.backlog_many)
    tell(f"{sizes.backlog_many:,} records wait in another")
    smalls, larges, peaks = [], [], []
    async with site.app() as app:
        for turn in range(sizes.backlog_rounds):
            for run in range(FEWS):
                small, _ = await _drain(site, app, few, f"few-{turn}-{run}", sizes.backlog_few)
                smalls.append(small)
            large, peak = await _drain(site, app, many, f"many-{turn}", sizes.backlog_many)
            larges.append(large)
            peaks += [] if peak is None else [peak]
            tell(f"round {turn + 1}: {large:,.0f} a second with many, {median(smalls):,.0f} with few")
    return [
        Figure(f"with {sizes.backlog_few:,} waiting", median(smalls), "records/s"),
        Figure(f"with {sizes.backlog_many:,} waiting", median(larges), "records/s"),
        Figure("part of the rate with few", median(larges) / median(smalls), "", Target("at least", 0.8)),
        Figure("peak memory of the worker", max(peaks, default=None), "MB", Target("at most", 250)),
    ]


async def _drain(site: Site, app: Streams, topic: str, group: str, records: int) -> tuple[float, float | None]:
    """Records a second of one worker process, and its peak memory."""
    worker = site.start(site.errand(topic, group))
    began = await site.until(is_shared(1), app, topic, group, look_seconds=LOOK_SECONDS)
    ended = await site.until(lambda status: status.lag == 0, app, topic, group, look_seconds=LOOK_SECONDS)
    peak = peak_megabytes(worker.pid)
    await site.stop(worker)
    return records / (ended - began), peak

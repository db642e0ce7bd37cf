"""Handover: a worker process is stopped, or joins, and partitions move from a living owner to another.

From the release of a partition to the first start of a handler in it under its next owner; of each handover, the
partition that took longest. A release is seen by the line that its owner logs as soon as the store has taken the lease
back. Both times are by the clock of day, which all processes of a machine share. Records wait in every partition.
"""

import re
from collections.abc import Callable
from datetime import datetime

import msgspec

from streams.cli.bench.crew import Crew
from streams.cli.bench.figure import BenchFailed, Figure, Target, percentile
from streams.cli.bench.site import Site, Worker
from streams.cli.bench.sizes import Sizes

RELEASED = re.compile(r"/(\d+) of group \S+, epoch (\d+): released at \d+")


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """Percentiles over handovers."""
    seconds: list[float] = []
    partitions = 0
    app = site.app()
    crew = Crew(site, app)
    async with app:
        for _ in range(2):
            await crew.start()
        while len(seconds) < sizes.handovers:
            await crew.shared()
            moved = await (_stop(site, crew) if len(crew.workers) == 2 else _join(crew))
            seconds.append(max(moved))
            partitions += len(moved)
            if len(seconds) % 10 == 0 or len(seconds) == sizes.handovers:
                tell(f"{len(seconds)} handovers")
    return [
        Figure("release to handler start, median", percentile(seconds, 50), "s"),
        Figure("release to handler start, p95", percentile(seconds, 95), "s", Target("at most", 0.5)),
        Figure("release to handler start, longest", max(seconds), "s"),
        Figure("handovers", len(seconds), ""),
        Figure("partitions moved", partitions, ""),
    ]


async def _stop(site: Site, crew: Crew) -> list[float]:
    """Stop the worker that has been there for longer; seconds for each of its partitions."""
    leaver = crew.workers[0]
    crew.remove(leaver)
    await site.stop(leaver)
    return await _seconds(crew, leaver, {})


async def _join(crew: Crew) -> list[float]:
    """Let another worker join; seconds for each partition that the first one gives up for it."""
    (giver,) = crew.workers
    before = _released(giver)
    await crew.start()
    await crew.shared()
    return await _seconds(crew, giver, before)


async def _seconds(crew: Crew, giver: Worker, before: dict[tuple[int, int], float]) -> list[float]:
    released = {place: wall for place, wall in _released(giver).items() if place not in before}
    if not released:
        raise BenchFailed(f"handover: a worker has released nothing: {giver.last_words()}")
    started = await crew.started(dict(released.keys()))
    return [max(0.0, started[partition].wall - wall) for (partition, _), wall in released.items()]


def _released(worker: Worker) -> dict[tuple[int, int], float]:
    """When a worker has released a partition that it held under an epoch."""
    found = {}
    for line in worker.log.read_bytes().splitlines():
        if b"released at" in line:
            said = msgspec.json.decode(line)
            if match := RELEASED.search(said["message"]):
                found[int(match[1]), int(match[2])] = datetime.fromisoformat(said["time"]).timestamp()
    return found

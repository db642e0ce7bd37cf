"""Join: an eighth worker process joins seven that share 64 busy partitions.

Each partition has records waiting, which take 20 ms each. Of a partition that moves, stillness is from one start of a
handler to the next, with the handover between them; of the others it is the longest time between two starts in the
seconds around the join. Between joins the newcomer is stopped, which moves its partitions back.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise

import anyio

from streams.cli.bench.crew import Crew
from streams.cli.bench.figure import Figure, Target
from streams.cli.bench.notes import Start
from streams.cli.bench.site import LEASE_SECONDS, Site
from streams.cli.bench.sizes import Sizes
from streams.clock import boottime

PARTITIONS = 64
WORKERS = 7
HANDLER_SECONDS = 0.02
WAITING_SECONDS = 20.0
AROUND_SECONDS = 1.0
"""So long before and after a join the others are looked at, too."""


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """How many partitions moved, and how long anything stood still."""
    app = site.app()
    crew = Crew(
        site,
        app,
        partitions=PARTITIONS,
        handler_seconds=HANDLER_SECONDS,
        waiting_seconds=WAITING_SECONDS,
        lease_seconds=LEASE_SECONDS,
    )
    moves, moved, stayed = [], [], []
    async with app:
        for _ in range(WORKERS):
            await crew.start()
        for number in range(sizes.joins):
            await crew.shared()
            count, still, others = await _join(crew)
            moves.append(count)
            moved.append(still)
            stayed.append(others)
            tell(f"join {number + 1}: {count} moved, still for {still:.3f} s at most; the others {others:.3f} s")
            leaver = crew.workers[-1]
            crew.remove(leaver)
            await site.stop(leaver)
    least = PARTITIONS // (WORKERS + 1)
    return [
        Figure("partitions moved by a join, most", max(moves), "", Target("at most", least)),
        Figure("a moved partition stands still, longest", max(moved), "s", Target("at most", 1)),
        Figure("another one shows no start, longest", max(stayed), "s", Target("at most", 0.25)),
        Figure("joins", len(moves), ""),
    ]


async def _join(crew: Crew) -> tuple[int, float, float]:
    """How many times a partition moved; the longest stillness of one that did, and of the others."""
    epochs, owners = await crew.epochs(), await crew.owners()
    began = boottime()
    await anyio.sleep(AROUND_SECONDS)
    await crew.start()
    await crew.shared()
    now = await crew.owners()
    moved = [partition for partition, owner in owners.items() if now[partition] != owner]
    await crew.started({partition: epochs[partition] for partition in moved})
    await anyio.sleep(AROUND_SECONDS)
    moves = sum(epoch - epochs[partition] for partition, epoch in (await crew.epochs()).items())
    longest = _longest(start for start in crew.starts() if start.at > began)
    stayed = [partition for partition in owners if partition not in moved]
    return moves, max(longest[partition] for partition in moved), max(longest[partition] for partition in stayed)


def _longest(starts: Iterable[Start]) -> dict[int, float]:
    """The longest time between two starts in each partition."""
    times: dict[int, list[float]] = defaultdict(list)
    for start in starts:
        times[start.partition].append(start.at)
    return {
        partition: max(later - earlier for earlier, later in pairwise(sorted(ats))) for partition, ats in times.items()
    }

"""Publishing: `publish_many`, beside a bare insert of the same rows, encoded beforehand.

The bare insert is what the driver does best: `executemany` on SQLite, `INSERT … SELECT unnest` on PostgreSQL. Both
write transactions of 1,000 records with the durability of the URL (`synchronous=FULL` on SQLite unless it says
otherwise, `synchronous_commit=on` on PostgreSQL). The objects, and the bare rows, are made before the clock starts.
"""

import gc
from collections.abc import Callable
from statistics import median
from time import perf_counter

from streams.cli.bench.figure import Figure, Target
from streams.cli.bench.order import PARTITIONS, Order, items, rows
from streams.cli.bench.site import Site
from streams.cli.bench.sizes import Sizes
from streams.stores.yardstick import Bare

BATCH = 1_000
"""What `publish_many` writes at once."""
TARGETS = {"sqlite": Target("at least", 0.5), "postgresql": Target("at least", 0.45, goal=0.6)}


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """Rates of both, and what part of the bare rate ours is."""
    app = site.app()
    topic = app.topic(site.topic("orders"), Order, partitions=PARTITIONS)
    ours, bares = [], []
    async with app:
        await topic.publish_many(items(0, 1))
        async with site.bare() as bare:
            await bare.make_table()
            for turn in range(sizes.publish_rounds):
                low = turn * sizes.publish_records
                high = low + sizes.publish_records
                bares.append(await write_bare(bare, low, high))
                batch = list(items(low, high))
                gc.collect()
                started = perf_counter()
                await topic.publish_many(batch)
                ours.append(sizes.publish_records / (perf_counter() - started))
                tell(f"round {turn + 1}: {ours[-1]:,.0f} a second, bare {bares[-1]:,.0f}")
    ratio = median(one / other for one, other in zip(ours, bares, strict=True))
    return [
        Figure("publish_many", median(ours), "records/s"),
        Figure(f"bare {bare.writing}", median(bares), "records/s"),
        Figure("part of the bare rate", ratio, "", TARGETS[site.kind]),
    ]


async def write_bare(bare: Bare, low: int, high: int) -> float:
    """Records a second."""
    made = rows(low, high)
    batches = [made[start : start + BATCH] for start in range(0, len(made), BATCH)]
    gc.collect()
    started = perf_counter()
    for batch in batches:
        await bare.write(batch)
    return len(made) / (perf_counter() - started)

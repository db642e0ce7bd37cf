"""Latency: a worker process has nothing to do, and another process publishes one record at a time.

From the call of `publish` to the start of the handler, by a clock that both processes share. What the disk takes for
one row alone stands beside it: bare inserts of one row, in rounds between those of the samples. A server makes a
checkpoint before, so that it does not write meanwhile what others have left.
"""

import random
from collections.abc import Callable
from time import perf_counter

import anyio

from streams import Topic
from streams.cli.bench.figure import BenchFailed, Figure, Target, percentile
from streams.cli.bench.order import PARTITIONS, Order, key, order, rows
from streams.cli.bench.site import PATIENCE_SECONDS, Site, Worker, is_shared
from streams.cli.bench.sizes import Sizes
from streams.clock import boottime
from streams.stores.yardstick import Bare

ROUNDS = 5
REST_SECONDS = 0.01, 0.05
"""Before each sample, so that the worker is idle again; at random, so as not to keep step with it."""
MEDIANS = {"sqlite": Target("at most", 10), "postgresql": Target("at most", 5)}
TAILS = {"sqlite": Target("at most", 100), "postgresql": Target("at most", 50)}


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """Percentiles of both."""
    app = site.app()
    topic = app.topic(site.topic("orders"), Order, partitions=PARTITIONS)
    sent: list[float] = []
    bares: list[float] = []
    async with app:
        worker = site.start(site.errand(topic.name, each=True))
        await site.until(is_shared(1), app, topic.name)
        if site.kind == "postgresql":
            async with site.server() as server:
                await server.checkpoint()
        async with site.bare() as bare:
            await bare.make_table()
            for turn in range(1, ROUNDS + 1):
                until = sizes.latency_samples * turn // ROUNDS
                bares += [await _insert(bare, number) for number in range(len(sent), until)]
                await _publish(topic, until, sent)
                tell(f"{len(sent):,} samples")
        started = await _starts(worker, len(sent))
        await site.stop(worker)
    seconds = [started[number] - at for number, at in enumerate(sent)]
    return [
        Figure("publish to handler start, p50", 1_000 * percentile(seconds, 50), "ms", MEDIANS[site.kind]),
        Figure("publish to handler start, p99", 1_000 * percentile(seconds, 99), "ms", TAILS[site.kind]),
        Figure("publish to handler start, longest", 1_000 * max(seconds), "ms"),
        Figure("bare insert of one row, p50", 1_000 * percentile(bares, 50), "ms"),
        Figure("bare insert of one row, p99", 1_000 * percentile(bares, 99), "ms"),
    ]


async def _publish(topic: Topic[Order], until: int, sent: list[float]) -> None:
    """The next orders up to a number; when each call was made."""
    for number in range(len(sent), until):
        await anyio.sleep(random.uniform(*REST_SECONDS))
        sent.append(boottime())
        await topic.publish(key(number), order(number))


async def _insert(bare: Bare, number: int) -> float:
    """How long the insert of one row takes."""
    made = rows(number, number + 1)
    started = perf_counter()
    await bare.write(made)
    return perf_counter() - started


async def _starts(worker: Worker, count: int) -> dict[int, float]:
    """When the handler of each order started, for the first time."""
    with anyio.move_on_after(PATIENCE_SECONDS):
        while len(worker.notes.look()) < count:  # noqa: ASYNC110 - another process writes them
            await anyio.sleep(0.05)
    found = {start.number: start.at for start in reversed(worker.notes.starts)}
    if len(found) < count:
        raise BenchFailed(f"latency: of {count:,} records {len(found):,} were handled")
    return found

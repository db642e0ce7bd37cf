"""Volume: what the server writes for records, from the publish until they are settled.

A worker in this process handles with a handler that does nothing, while batches of 1,000 are published to it. Beside
it the same rows go into a bare table. After a checkpoint the server logs each page whole when it is first changed; so
each side goes twice over the same number of records after one, and the second pass is what counts. Whatever others
write meanwhile, anywhere on that server, counts too.

Rows that are updated or deleted leave garbage behind, which somebody has to clear away. All of ours count, those of
coordination as well.
"""

from collections.abc import Callable, Sequence

import anyio

from streams import Streams, Topic
from streams.cli.bench.figure import Figure, Target
from streams.cli.bench.order import PARTITIONS, Order, items, rows
from streams.cli.bench.publish import BATCH, write_bare
from streams.cli.bench.site import Site
from streams.cli.bench.sizes import Sizes
from streams.stores.yardstick import BareServer

GROUP = "volume"
PASSES = "first pass after a checkpoint", "second pass"


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """Bytes a record of both, how many times more ours are, and rows changed."""
    records = sizes.volume_records
    topic = site.topic("orders")
    await site.fill(topic, 0)
    async with site.server() as bare:
        await bare.make_table()
        changed = await bare.changed_rows()
        ours = await _ours(site, bare, topic, records, tell)
        changed = await bare.changed_rows() - changed
        bares = await _bare(bare, records, tell)
    figures = []
    for name, one, other in zip(PASSES, ours, bares, strict=True):
        target = Target("at most", 1.3) if name == PASSES[-1] else None
        figures += [
            Figure(f"log from publish to settled, {name}", one / records, "bytes a record"),
            Figure(f"log of the bare insert, {name}", other / records, "bytes a record"),
            Figure(f"times the bare log, {name}", one / other, "", target),
        ]
    per_thousand = 1_000 * changed / (len(PASSES) * records)
    return [*figures, Figure("rows updated or deleted per 1,000 records", per_thousand, "", Target("at most", 20))]


async def _ours(site: Site, bare: BareServer, name: str, records: int, tell: Callable[[str], None]) -> Sequence[int]:
    """Bytes of each pass."""
    app = site.app()
    topic = app.topic(name, Order, partitions=PARTITIONS)

    @topic.subscribe(group=GROUP)
    async def nothing(order: Order) -> None:
        pass

    passes = []
    async with app, anyio.create_task_group() as tasks:
        tasks.start_soon(app.work)
        await _pass(site, app, topic, 0, BATCH)
        await _checkpoint(bare, tell)
        for number in range(len(PASSES)):
            before = await bare.logged_bytes()
            low = BATCH + number * records
            await _pass(site, app, topic, low, low + records)
            passes.append(await bare.logged_bytes() - before)
            tell(f"{PASSES[number]}: {passes[-1]:,} bytes")
        tasks.cancel_scope.cancel()
    return passes


async def _pass(site: Site, app: Streams, topic: Topic[Order], low: int, high: int) -> None:
    """Publish by the thousand, until all is settled."""
    await topic.publish_many(items(low, high))
    await site.until(lambda status: status.lag == 0, app, topic.name, GROUP)


async def _bare(bare: BareServer, records: int, tell: Callable[[str], None]) -> Sequence[int]:
    passes = []
    await bare.write(rows(0, BATCH))
    await _checkpoint(bare, tell)
    for number in range(len(PASSES)):
        before = await bare.logged_bytes()
        low = BATCH + number * records
        await write_bare(bare, low, low + records)
        passes.append(await bare.logged_bytes() - before)
        tell(f"bare, {PASSES[number]}: {passes[-1]:,} bytes")
    return passes


async def _checkpoint(bare: BareServer, tell: Callable[[str], None]) -> None:
    if not await bare.checkpoint():
        tell("this role may make no checkpoint: grant it pg_checkpoint, or the passes are not what they are called")

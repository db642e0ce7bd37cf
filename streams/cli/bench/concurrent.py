"""Concurrent publishing: many tasks of one process that await one `publish` each, again and again.

Beside it many connections that insert one row a commit, which is what a program does that has no publisher. Rounds
alternate. Each task publishes under keys of its own; each connection is one task, too.
"""

import gc
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from statistics import median
from time import perf_counter

import anyio

from streams import Topic
from streams.cli.bench.figure import Figure, Target
from streams.cli.bench.order import PARTITIONS, Order, key, order, rows
from streams.cli.bench.site import Site
from streams.cli.bench.sizes import Sizes
from streams.stores.yardstick import BareServer

TASKS = 256
CONNECTIONS = 16
BARE_PART = 4
"""The bare loop has so many times less to do, since it is slower."""


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """Rates of both, and how many times faster ours is."""
    app = site.app()
    topic = app.topic(site.topic("orders"), Order, partitions=PARTITIONS)
    ours, bares = [], []
    numbers = count()
    async with app:
        await topic.publish(key(0), order(0))
        async with site.server() as bare, AsyncExitStack() as stack:
            await bare.make_table()
            connections = [await bare.sibling() for _ in range(CONNECTIONS)]
            for connection in connections:
                stack.push_async_callback(connection.close)
            for turn in range(sizes.concurrent_rounds):
                inserts = [partial(_insert, connection, numbers) for connection in connections]
                bares.append(await _rate(inserts, sizes.concurrent_records // BARE_PART))
                publishes = [partial(_publish, topic, task) for task in range(TASKS)]
                ours.append(await _rate(publishes, sizes.concurrent_records))
                tell(f"round {turn + 1}: {ours[-1]:,.0f} a second, bare {bares[-1]:,.0f}")
    faster = median(one / other for one, other in zip(ours, bares, strict=True))
    return [
        Figure(f"{TASKS} tasks that await `publish`", median(ours), "records/s"),
        Figure(f"{CONNECTIONS} connections, one row a commit", median(bares), "records/s"),
        Figure("times the bare rate", faster, "", Target("at least", 3)),
    ]


async def _rate(actions: Sequence[Callable[[int], Awaitable[None]]], records: int) -> float:
    """Records a second, when each action is done again and again by a task of its own."""
    left = iter(range(records))

    async def go_on(action: Callable[[int], Awaitable[None]]) -> None:
        for number in left:
            await action(number)

    gc.collect()
    started = perf_counter()
    async with anyio.create_task_group() as tasks:
        for action in actions:
            tasks.start_soon(go_on, action)
    return records / (perf_counter() - started)


async def _publish(topic: Topic[Order], task: int, number: int) -> None:
    await topic.publish(key(task + TASKS * (number % 3)), order(number))


async def _insert(connection: BareServer, numbers: "count[int]", _: int) -> None:
    number = next(numbers)
    await connection.write(rows(number, number + 1))

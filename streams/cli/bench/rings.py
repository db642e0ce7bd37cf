"""Rings: sixteen programs publish to one topic, while the workers of another have nothing to do.

Idle workers are rung for, and NOTIFY takes a lock that all committing notifiers of a server share. So nobody may ring
who publishes what no idle worker waits for. Rounds alternate with workers that do without a bell, by `?listen=off`.
The programs are apps in this process, each with a connection of its own, that await one `publish` after another.
"""

import gc
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from statistics import median
from time import perf_counter

import anyio

from streams import Topic
from streams.cli.bench.figure import Figure, Target
from streams.cli.bench.order import PARTITIONS, Order, key, order
from streams.cli.bench.site import PATIENCE_SECONDS, Site, is_shared
from streams.cli.bench.sizes import Sizes
from streams.stores.yardstick import BareServer

PROGRAMS = 16
WORKERS = 2
LOOK_SECONDS = 0.1


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """Rates with and without sleepers, and what part is left."""
    topic, other = site.topic("orders"), site.topic("others")
    for name in (topic, other):
        await site.fill(name, 0)
    silent_url = f"{site.url}{'&' if '?' in site.url else '?'}listen=off"
    rates: dict[str, list[float]] = {site.url: [], silent_url: []}
    async with AsyncExitStack() as stack:
        bare = await stack.enter_async_context(site.server())
        apps = [await stack.enter_async_context(site.app()) for _ in range(PROGRAMS)]
        programs = [app.topic(topic, Order, partitions=PARTITIONS) for app in apps]
        await _rate(programs, PROGRAMS)
        for turn in range(sizes.ring_rounds):
            for url, found in list(rates.items())[:: 1 if turn % 2 else -1]:  # Neither always has the other's wake.
                workers = [site.start(site.errand(other), url=url) for _ in range(WORKERS)]
                await site.until(is_shared(WORKERS), apps[0], other)
                await _sleep(bare, WORKERS if url == site.url else 0)
                found.append(await _rate(programs, sizes.ring_records))
                for worker in workers:
                    await site.stop(worker)
            with_sleepers, without = (found[-1] for found in rates.values())
            tell(f"round {turn + 1}: {with_sleepers:,.0f} a second, without sleepers {without:,.0f}")
    listening, silent = rates.values()
    part = median(one / other for one, other in zip(listening, silent, strict=True))
    return [
        Figure(f"{PROGRAMS} publishers, sleepers on another topic", median(listening), "records/s"),
        Figure(f"{PROGRAMS} publishers, `?listen=off`", median(silent), "records/s"),
        Figure("part of the rate without sleepers", part, "", Target("at least", 0.9)),
    ]


async def _sleep(bare: BareServer, sleepers: int) -> None:
    """Return when so many members have lain down."""
    with anyio.fail_after(PATIENCE_SECONDS):
        while await bare.sleepers() != sleepers:  # noqa: ASYNC110 - other processes write them
            await anyio.sleep(LOOK_SECONDS)


async def _rate(programs: Sequence[Topic[Order]], records: int) -> float:
    """Records a second, when each program publishes again and again, under keys of its own."""
    left = iter(range(records))

    async def go_on(program: Topic[Order], place: int) -> None:
        for number in left:
            await program.publish(key(place + PROGRAMS * (number % 50)), order(number))

    gc.collect()
    started = perf_counter()
    async with anyio.create_task_group() as tasks:
        for place, program in enumerate(programs):
            tasks.start_soon(go_on, program, place)
    return records / (perf_counter() - started)

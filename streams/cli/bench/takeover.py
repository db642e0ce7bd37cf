"""Takeover: one of two worker processes is killed, again and again.

From just before the SIGKILL to the first start of a handler in the last of the victim's partitions, all of which have
records waiting. A new worker is started at once in the victim's place, as a supervisor would. The bound is the lease's
time to live and one second.
"""

from collections.abc import Callable

from streams.cli.bench.crew import LEASE_SECONDS, Crew
from streams.cli.bench.figure import Figure, Target, percentile
from streams.cli.bench.site import Site
from streams.cli.bench.sizes import Sizes
from streams.clock import boottime

LATE_SECONDS = 1.0


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """Seconds, and how many kills were in time."""
    seconds: list[float] = []
    app = site.app()
    crew = Crew(site, app)
    bound = LEASE_SECONDS + LATE_SECONDS
    async with app:
        for _ in range(2):
            await crew.start()
        for number in range(sizes.kills):
            await crew.shared()
            seconds.append(await _kill(crew))
            tell(f"kill {number + 1}: {seconds[-1]:.2f} s")
    return [
        Figure("kill to handler start, median", percentile(seconds, 50), "s"),
        Figure("kill to handler start, longest", max(seconds), "s", Target("at most", bound)),
        Figure("kills", len(seconds), ""),
        Figure("kills in time", sum(one <= bound for one in seconds), "", Target("at least", len(seconds))),
    ]


async def _kill(crew: Crew) -> float:
    """Kill the worker that has been there for longer; seconds until all of its partitions are at work again."""
    victim = crew.workers[0]
    held = await crew.held_by(victim)
    epochs = await crew.epochs()
    killed_at = boottime()
    await victim.kill()
    crew.remove(victim)
    await crew.start()
    started = await crew.started({partition: epochs[partition] for partition in held})
    return max(start.at for start in started.values()) - killed_at

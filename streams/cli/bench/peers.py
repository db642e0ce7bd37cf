"""Peers: job queues for PostgreSQL, on the same server in the same run, each draining jobs that do nothing.

All jobs wait before the clock starts, the statistics of the tables are fresh, and whatever a library recommends for
short jobs is set. The clock runs from the first call of a handler until all is done, durably. Peers live in schemas of
their own, dropped afterwards. None of them keeps an order but procrastinate with a lock for each key. One that is not
installed is named, and left out: `pip install 'ordered-streams[peers]'` brings them.
"""

import gc
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from statistics import median
from typing import Any

from streams.cli.bench.figure import Figure, Target
from streams.cli.bench.handle import work
from streams.cli.bench.order import KEYS, key, publications
from streams.cli.bench.site import Site
from streams.cli.bench.sizes import Sizes
from streams.clock import boottime
from streams.stores.yardstick import BareServer

FILL_JOBS = 1_000
PGQUEUER_BATCH = 500
"""Its guide to tuning says to raise the batch, 10 by default, for short jobs. From 500 on it gains no more."""
PROCRASTINATE_CONCURRENCY = 10
"""With 50, several workers in one process get in each other's way."""
PROCRASTINATE_PART = 10
"""It has so many times fewer jobs, since it takes longer: two under each key in a full run."""

Drain = Callable[[BareServer, int], Awaitable[float]]


class Clock:
    """Runs from the first call of a handler."""

    def __init__(self) -> None:
        self.calls = 0
        self._began = 0.0

    def call(self) -> None:
        """A handler was called."""
        if not self.calls:
            self._began = boottime()
        self.calls += 1

    def rate(self, jobs: int) -> float:
        """Jobs a second, all being done."""
        assert self.calls == jobs, f"{self.calls} calls for {jobs} jobs"
        return jobs / (boottime() - self._began)


async def measure(site: Site, sizes: Sizes, tell: Callable[[str], None]) -> list[Figure]:
    """Rates of all, and how many times faster ours is."""
    jobs = sizes.peer_jobs
    few = max(1, jobs // PROCRASTINATE_PART)
    topic = site.topic("orders")
    await site.fill(topic, sizes.peer_records)
    ours: list[float] = []
    theirs: dict[str, list[float]] = {}
    for turn in range(sizes.peer_rounds):
        ours.append(await work(site, topic, f"round-{turn + 1}", sizes.peer_records))
        tell(f"round {turn + 1}: ours {ours[-1]:,.0f} a second")
        for name, library, count, drain in (
            ("pgqueuer", "pgqueuer", jobs, _pgqueuer),
            ("procrastinate", "procrastinate", few, _procrastinate),
            ("procrastinate with locks", "procrastinate", few, _procrastinate_with_locks),
        ):
            rates = theirs.setdefault(name, [])
            if _is_missing(library):
                tell(f"{name}: not installed; pip install 'ordered-streams[peers]'")
                continue
            async with site.server() as bare:
                gc.collect()
                rates.append(await drain(bare, count))
            tell(f"round {turn + 1}: {name} {rates[-1]:,.0f} a second")
    return [
        Figure("worker, order kept by key", median(ours), "records/s"),
        Figure(f"{_called('pgqueuer')}, no order, by {PGQUEUER_BATCH}", _median(theirs["pgqueuer"]), "jobs/s"),
        Figure(f"{_called('procrastinate')}, no order", _median(theirs["procrastinate"]), "jobs/s"),
        Figure(
            f"{_called('procrastinate')}, a lock for each of {KEYS:,} keys",
            _median(theirs["procrastinate with locks"]),
            "jobs/s",
        ),
        Figure("times pgqueuer", _times(ours, theirs["pgqueuer"]), "", Target("at least", 5)),
        Figure("times procrastinate", _times(ours, theirs["procrastinate"]), ""),
        Figure(
            "times procrastinate with locks",
            _times(ours, theirs["procrastinate with locks"]),
            "",
            Target("at least", 100),
        ),
    ]


async def _pgqueuer(bare: BareServer, jobs: int) -> float:
    """Jobs a second of its drain mode, through asyncpg."""
    library = import_module("pgqueuer")
    drain = import_module("pgqueuer.types").QueueExecutionMode.drain
    schema = await bare.make_schema()
    manager: Any = library.PgQueuer.from_asyncpg_connection(await bare.connection(schema)).qm
    await manager.queries.install()
    payloads = [one.payload for one in publications(1, 0, jobs)]
    for low in range(0, jobs, FILL_JOBS):
        some = payloads[low : low + FILL_JOBS]
        await manager.queries.enqueue(["nothing"] * len(some), some, [0] * len(some))
    await bare.analyze(schema)
    clock = Clock()

    @manager.entrypoint("nothing")  # type: ignore[untyped-decorator]
    async def nothing(job: object) -> None:
        clock.call()

    await manager.run(mode=drain, batch_size=PGQUEUER_BATCH)
    return clock.rate(jobs)


async def _procrastinate(bare: BareServer, jobs: int, *, lock: bool = False) -> float:
    """Jobs a second of a worker that ends when there is no more to do."""
    library = import_module("procrastinate")
    schema = await bare.make_schema()
    connector = library.PsycopgConnector(
        conninfo=bare.dsn,
        kwargs={"options": f"-c search_path={schema}"},
        max_size=PROCRASTINATE_CONCURRENCY + 2,
    )
    app: Any = library.App(connector=connector)
    clock = Clock()

    @app.task(name="nothing")  # type: ignore[untyped-decorator]
    async def nothing(number: int) -> None:
        clock.call()

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for number in range(jobs):
            await nothing.configure(lock=key(number) if lock else None).defer_async(number=number)
        await bare.analyze(schema)
        await app.run_worker_async(
            concurrency=PROCRASTINATE_CONCURRENCY, wait=False, listen_notify=False, install_signal_handlers=False
        )
        return clock.rate(jobs)


async def _procrastinate_with_locks(bare: BareServer, jobs: int) -> float:
    return await _procrastinate(bare, jobs, lock=True)


def _is_missing(library: str) -> bool:
    try:
        import_module(library)
    except ImportError:  # Also of what it needs itself: a psycopg without the system's libpq.
        return True
    return False


def _called(library: str) -> str:
    return library if _is_missing(library) else f"{library} {version(library)}"


def _median(rates: Sequence[float]) -> float | None:
    return median(rates) if rates else None


def _times(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    return median(one / other for one, other in zip(ours, theirs, strict=True)) if theirs else None

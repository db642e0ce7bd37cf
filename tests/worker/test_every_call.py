"""Every call of every verb fails once, before or after its effect, in the whole life of a worker.

It joins, shares, takes back, handles, drains and leaves, and works once more until nothing is left. In virtual time
each call of each verb gets its turn; on SQLite the first few do, those of all verbs in one life.
"""

from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import anyio
import pytest

from streams import Context
from streams.clock import boottime
from streams.errors import PublishUncertain, StoreUnavailable
from streams.stores.memory import MemoryStore
from streams.stores.sqlite.store import SqliteStore
from streams.stores.sqlite.url import parse
from streams.worker.backoff import AWAY
from tests.worker.bench import Bench, Job
from tests.worker.ledger import Ledger
from tests.worker.setting import SQLITE, Setting, in_settings, in_virtual_time

KEYS, ROUNDS, PARTITIONS = 6, 10, 4
MOST_CALLS = 60

VERBS = [
    *("ensure_topic", "ensure_group", "register", "open", "beat", "view", "acquire", "generation"),
    *("fetch", "rung", "commit", "groups", "release", "leave"),
]
NOT_THE_WORKERS = {"topic", "append", "try_append", "close"}
"""What publishers call, and the verb that has nothing to fail."""


class Life:
    """The life of one worker, and of a second that is there for a while."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.ledger = Ledger()
        self.rounds = 0

    async def run(self, on_call: Callable[[str], None]) -> None:
        self._declare(self.bench)
        with anyio.fail_after(self.bench.limit_seconds):
            async with self.bench.another() as other, anyio.create_task_group() as group:
                self._declare(other)
                self.bench.faults.on_call = on_call
                job, others = Job(), Job()
                group.start_soon(self._work, self.bench, job)
                await self._rounds(1)
                group.start_soon(self._work, other, others)
                await self.bench.shared(PARTITIONS // 2, PARTITIONS // 2)
                await self._rounds(4)
                others.stop.set()
                await self.bench.shared(PARTITIONS)
                await self._rounds(4)
                job.stop.set()
                await job.over.wait()
                await self._publish()
                await persistently(lambda: self.bench.work(until_idle=True))

    async def _work(self, bench: Bench, job: Job) -> None:
        await persistently(lambda: bench.work(job.stop))
        job.over.set()

    async def _rounds(self, count: int) -> None:
        """Publish one record more for each key and wait for their handlers, so many times."""
        for _ in range(count):
            await self._publish()
            await self.ledger.reaches(KEYS * self.rounds)

    async def _publish(self) -> None:
        async with self.bench.another() as publisher:
            publisher.app.topic("orders", int, partitions=PARTITIONS)
            await publisher.app.publish_many("orders", ((f"key-{k}", self.rounds) for k in range(KEYS)))
        self.rounds += 1

    def _declare(self, bench: Bench) -> None:
        orders = bench.app.topic("orders", int, partitions=PARTITIONS)
        doubled = bench.app.topic("doubled", int, partitions=1)

        @orders.subscribe(group="billing")
        async def handle(number: int, ctx: Context) -> None:
            with self.ledger.record(ctx, number):
                await anyio.sleep(0.05)
                ctx.publish(doubled, ctx.key, number * 2)


async def persistently(work: Callable[[], Awaitable[bool]]) -> None:
    """A worker that cannot begin does so again, as `streams worker` does."""
    while True:
        try:
            await work()
        except AWAY:
            await anyio.sleep(0.01)
        else:
            return


async def live(bench: Bench, verbs: Collection[str], number: int, *, after: bool) -> int:
    """A life in which the calls of this number fail; how many there were."""
    faults = bench.faults

    def fail(verb: str) -> None:
        if verb in verbs and len(faults.calls[verb]) == number:
            error = PublishUncertain("no answer") if after else StoreUnavailable("away")
            faults.fail(verb, error=error, after=after)

    faults.calls.clear()
    life = Life(bench)
    await life.run(fail)
    assert faults.calls.keys() <= {*VERBS, *NOT_THE_WORKERS}, "a verb that has to fail here too"
    assert not life.ledger.violations
    assert {*life.ledger.ended} == {(f"key-{k}", number) for k in range(KEYS) for number in range(ROUNDS)}
    assert (await bench.status("billing")).lag == 0
    doubled = sorted(int(payload) for payload in await bench.published("doubled"))
    assert doubled == sorted([*range(0, 2 * ROUNDS, 2)] * KEYS), "published once, whatever was repeated"
    return faults.failed


@pytest.fixture
def new_bench(setting: Setting, tmp_path: Path) -> Callable[[], Bench]:
    """An app on an empty database, as often as it is called."""

    def new() -> Bench:
        if setting == SQLITE:
            store = SqliteStore(parse(f"sqlite:///{tmp_path}/streams.db?synchronous=normal"))
            return Bench(store, clock=boottime, heart_in_thread=True, limit_seconds=20, lease_seconds=1)
        memory = MemoryStore(clock=lambda: round(anyio.current_time() * 1_000_000))
        return Bench(memory, clock=anyio.current_time, heart_in_thread=False, limit_seconds=3_600, lease_seconds=1)

    return new


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("verb", VERBS)
@in_virtual_time
async def test_each_call_of_a_verb_may_fail(new_bench: Callable[[], Bench], verb: str, after: bool) -> None:
    for number in range(1, MOST_CALLS):
        async with new_bench() as bench:
            if not await live(bench, [verb], number, after=after):
                break
    assert number > 1


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", [1, 2, 3])
@in_settings(SQLITE)
async def test_a_call_of_every_verb_may_fail_in_one_life(
    new_bench: Callable[[], Bench], number: int, after: bool
) -> None:
    async with new_bench() as bench:
        assert await live(bench, VERBS, number, after=after)

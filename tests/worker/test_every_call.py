"""Every call of every verb fails once, before or after its effect, in a short life of two workers.

The life is whole: they join, share, handle, hand over, drain and leave. In virtual time the calls of a verb are numbered
the same in every run, so that each of them gets its turn; on SQLite only the first ones do.
"""

from collections.abc import Callable

import anyio
import pytest

from streams import Context
from streams.errors import PublishUncertain, StoreUnavailable
from streams.worker.backoff import AWAY
from tests.worker.bench import Bench, Job
from tests.worker.ledger import Ledger
from tests.worker.setting import SQLITE, VIRTUAL, Setting

KEYS, ROUNDS, PARTITIONS = 6, 8, 4

VERBS = [
    "acquire", "beat", "commit", "ensure_group", "fetch", "generation", "groups", "leave", "open", "register",
    "release", "rung", "topic", "view",
]  # fmt: skip
UNTOUCHED = {"close", "append", "ensure_topic"}
"""Verbs that a worker does not call, and the one that gives up what it holds."""


class Life:
    """Two workers on one database, from their start to their end."""

    def __init__(self, bench: Bench, ledger: Ledger) -> None:
        self.bench = bench
        self.ledger = ledger

    async def run(self, before_work: Callable[[], None]) -> None:
        """The first worker begins alone, and shares; the second handles what is left when the first has drained."""
        self._declare(self.bench)
        async with self.bench.another() as other:
            self._declare(other)
            await self.bench.app.publish_many("orders", ((f"key-{k}", 0) for k in range(KEYS)))
            before_work()
            with anyio.fail_after(self.bench.limit_seconds):
                async with anyio.create_task_group() as group:
                    first, second = Job(), Job()
                    group.start_soon(self._work, self.bench, first)
                    await self.ledger.reaches(KEYS)
                    group.start_soon(self._work, other, second)
                    await self.bench.shared(PARTITIONS // 2, PARTITIONS // 2)
                    for number in range(1, ROUNDS):
                        await other.app.publish_many("orders", ((f"key-{k}", number) for k in range(KEYS)))
                    first.stop.set()
                    await first.over.wait()
                    await self.ledger.reaches(KEYS * ROUNDS)
                    second.stop.set()

    async def _work(self, bench: Bench, job: Job) -> None:
        """Until stopped; a worker that cannot begin does so again, as `streams worker` does."""
        while not job.stop.is_set():
            try:
                job.drained = await bench.work(job.stop)
            except AWAY:
                await anyio.sleep(0.01)
        job.over.set()

    def _declare(self, bench: Bench) -> None:
        orders = bench.app.topic("orders", int, partitions=PARTITIONS)
        doubled = bench.app.topic("doubled", int, partitions=1)

        @orders.subscribe(group="billing")
        async def handle(number: int, ctx: Context) -> None:
            with self.ledger.record(ctx, number):
                await anyio.sleep(0.01)
                ctx.publish(doubled, ctx.key, number * 2)


async def live_with_a_failure(bench: Bench, verb: str, number: int, after: bool) -> bool:
    """A life in which a verb's call of this number fails; whether there was such a call."""
    ledger = Ledger()
    faults = bench.faults

    def count(called: str) -> None:
        if called == verb and len(faults.calls[verb]) == number:
            error = PublishUncertain("no answer") if after else StoreUnavailable("away")
            faults.fail(verb, error=error, after=after)

    def begin() -> None:
        faults.calls.clear()
        faults.on_call = count

    await Life(bench, ledger).run(begin)
    assert faults.calls.keys() <= {*VERBS, *UNTOUCHED}, "a verb that has to fail here too"
    assert not ledger.violations
    assert {*ledger.ended} == {(f"key-{k}", number) for k in range(KEYS) for number in range(ROUNDS)}
    assert (await bench.status("billing")).lag == 0
    assert sorted(await bench.published("doubled")) == sorted(
        str(number * 2).encode() for number in range(ROUNDS) for _ in range(KEYS)
    ), "what a handler published is there once, whatever was repeated"
    return bool(faults.failed)

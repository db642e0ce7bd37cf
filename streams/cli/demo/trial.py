"""One run of the demo: publish a half, kill, publish the other half, wait until all is handled, judge."""

from collections import deque
from collections.abc import Iterable

import anyio
import msgspec

from partition import partition_of
from streams import Streams
from streams.cli.demo.fleet import Fleet, Worker
from streams.cli.demo.plan import Plan
from streams.cli.demo.screen import Picture, Screen
from streams.cli.demo.standing import NOWHERE, Lookout, Standing
from streams.cli.demo.verdict import Fault, judge, recovery_seconds
from streams.clock import boottime
from streams.errors import StreamsError

BATCH = 1_000
PACES = 100
PACE = 0.9
"""The part of a lease that publishing the second half takes, unless it takes longer anyway."""
LOOK_SECONDS = 0.1
RATE_SECONDS = 1.0
START_SECONDS = 60.0
"""So long the workers may take to start and share the partitions, beside a lease."""
STILL_SECONDS = 30.0
"""When nothing was settled for so long, beside three leases, nothing will be."""


class DemoFailed(StreamsError):
    """It could not even begin."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came out. `handled` and `lost` count records, `duplicates` and `out_of_order` runs of the handler.

    `records_per_second` is over all the time from the first publish to the end of the last run: the wait for the lease
    of a killed worker is part of it.
    """

    records: int
    keys: int
    workers: int
    killed: int
    handled: int
    duplicates: int
    lost: int
    out_of_order: int
    recovery_seconds: float | None
    records_per_second: float

    @property
    def good(self) -> bool:
        """Nothing lost, nothing out of order."""
        return not self.lost and not self.out_of_order


class Trial:
    """Runs once. `faults` are known after it."""

    def __init__(self, app: Streams, topic: str, plan: Plan, fleet: Fleet, screen: Screen, *, partitions: int) -> None:
        self.faults: tuple[Fault, ...] = ()
        self._app = app
        self._topic = app.topic(topic, int, partitions=partitions)
        self._plan = plan
        self._fleet = fleet
        self._screen = screen
        self._lookout = Lookout(app, topic, fleet)
        self._standing = NOWHERE
        self._began = boottime()
        self._published = 0
        self._looked = self._began
        self._settled: deque[tuple[float, int]] = deque([(self._began, 0)])
        self._orphans: set[int] = set()
        later = {key for key, _ in plan.items(plan.records // 2, plan.records)}
        self._coming = {partition_of(key, partitions) for key in later}

    async def run(self, *, workers: int, kill: int) -> Result:
        """From the first start to the verdict. It ends by itself, whatever the workers do."""
        half, records = self._plan.records // 2, self._plan.records
        async with self._app:
            self._fleet.start(workers)
            await self._share_out()
            began = boottime()
            await self._publish(0, half)
            victims, partitions, killed_at = await self._kill(kill)
            # There is nothing to wait for but the lease; let it be seen that all other keys go on meanwhile.
            await self._publish(half, records, pace_seconds=PACE * self._app.settings.lease_seconds if victims else 0.0)
            await self._wait_until_handled()
        await self._fleet.stop()
        runs = self._fleet.runs()
        by_key = self._plan.by_key()
        verdict = judge(by_key, runs, self._fleet.deaths())
        self.faults = verdict.faults
        ended = max((run.ended for run in runs if run.ended is not None), default=began)
        recovery = recovery_seconds(runs, killed_at=killed_at, victims=victims, partitions=partitions)
        return Result(
            records=records,
            keys=len(by_key),
            workers=workers,
            killed=len(victims),
            handled=verdict.handled,
            duplicates=verdict.duplicates,
            lost=verdict.lost,
            out_of_order=len(verdict.faults),
            recovery_seconds=None if recovery is None else round(recovery, 3),
            records_per_second=round(verdict.handled / (ended - began), 1) if ended > began else 0.0,
        )

    # Steps

    async def _share_out(self) -> None:
        """Until every partition has an owner, and every worker its share."""
        count = len(self._fleet.workers)
        self._tell(f"{count} worker processes start")
        deadline = boottime() + START_SECONDS + self._app.settings.lease_seconds
        while not self._is_shared(await self._look()):
            for worker in self._fleet.workers:
                if not worker.look():
                    words = worker.last_words() or "it said nothing"
                    raise DemoFailed(f"{worker.name} ended at the start: {words.splitlines()[-1]}")
            if boottime() > deadline:
                raise DemoFailed("the workers did not share the partitions in time; is this machine very busy?")
            await anyio.sleep(LOOK_SECONDS)
        self._tell(f"{count} workers share {self._topic.partitions} partitions")

    def _is_shared(self, standing: Standing) -> bool:
        workers = self._fleet.workers
        share = self._topic.partitions // len(workers)
        return all(share <= len(standing.held_by(worker.name)) <= share + 1 for worker in workers)

    async def _publish(self, low: int, high: int, *, pace_seconds: float = 0.0) -> None:
        """Publish these numbers, looking up now and then; evenly over the pace if there is time left."""
        began = boottime()
        batch = min(BATCH, max(1, (high - low) // PACES)) if pace_seconds else BATCH
        for start in range(low, high, batch):
            end = min(start + batch, high)
            await self._topic.publish_many(self._plan.items(start, end))
            self._published = end
            due = began + pace_seconds * (end - low) / (high - low)
            while (rest := due - boottime()) > 0:
                await self._look()
                await anyio.sleep(min(rest, LOOK_SECONDS))
            if boottime() - self._looked >= LOOK_SECONDS:
                await self._look()
        self._tell(f"records {low + 1:,} to {high:,} are published")

    async def _kill(self, count: int) -> tuple[list[str], list[int], float]:
        """Kill the workers that are in the midst of most; their names and partitions, and when it was."""
        standing = await self._look()
        victims = sorted(self._fleet.running(), key=self._worth, reverse=True)[:count]
        held = {victim.name: standing.held_by(victim.name) for victim in victims}
        partitions = [partition for each in held.values() for partition in each]
        killed_at = boottime()
        lease = f"its lease of {self._app.settings.lease_seconds:g} s goes on"
        for victim in victims:
            await victim.kill()
            self._tell(f"{victim.name} (pid {victim.pid}) is killed; {lease}, on {_listed(held[victim.name])}")
        self._orphans.update(partitions)
        return list(held), partitions, killed_at

    def _worth(self, worker: Worker) -> tuple[int, int]:
        """How much it is in the midst of, and how much is still to come to it."""
        held = self._standing.held_by(worker.name)
        return sum(self._standing.lags[partition] for partition in held), len(self._coming.intersection(held))

    async def _wait_until_handled(self) -> None:
        """Until the group has settled all, or nothing moves any more."""
        patience = STILL_SECONDS + 3 * self._app.settings.lease_seconds
        best, since = 0, boottime()
        while (standing := await self._look()).settled < self._published:
            if standing.settled > best:
                best, since = standing.settled, boottime()
            if not self._fleet.running():
                return self._tell("no worker is left")
            if boottime() - since > patience:
                return self._tell(f"nothing was settled for {patience:g} s: given up")
            await anyio.sleep(LOOK_SECONDS)
        return self._tell("all records are handled; the workers drain")

    # Showing

    async def _look(self) -> Standing:
        self._standing = standing = await self._lookout.look()
        self._tell_takeovers(standing)
        self._looked = now = boottime()
        self._settled.append((now, standing.settled))
        while len(self._settled) > 2 and self._settled[0][0] < now - RATE_SECONDS:
            self._settled.popleft()
        then, before = self._settled[0]
        self._screen.show(
            Picture(
                seconds=now - self._began,
                records=self._plan.records,
                published=self._published,
                rate=max(0, standing.settled - before) / max(now - then, LOOK_SECONDS),
                workers=[(worker.name, worker.pid, worker.state) for worker in self._fleet.workers],
                standing=standing,
            )
        )
        return standing

    def _tell_takeovers(self, standing: Standing) -> None:
        taken: dict[str, list[int]] = {}
        for partition in sorted(self._orphans):
            owner = standing.owners[partition]
            if owner is not None and owner in {worker.name for worker in self._fleet.running()}:
                taken.setdefault(owner, []).append(partition)
        for owner, partitions in taken.items():
            self._orphans.difference_update(partitions)
            self._tell(f"{owner} takes over {_listed(partitions)}")

    def _tell(self, event: str) -> None:
        self._screen.tell(boottime() - self._began, event)


def _listed(partitions: Iterable[int]) -> str:
    return ", ".join(map(str, partitions))

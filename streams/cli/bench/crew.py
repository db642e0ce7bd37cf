"""Worker processes that share a busy topic, one of which is killed or stopped, or joins, again and again.

Each partition has one key, whose records wait in a row and take some time each: so a partition that has an owner is at
work, and the first start of a handler in it shows when the owner began.
"""

import anyio

from streams import Streams
from streams.cli.bench.figure import BenchFailed
from streams.cli.bench.notes import Start
from streams.cli.bench.order import Order, key_of, order
from streams.cli.bench.site import GROUP, PATIENCE_SECONDS, Site, Worker, is_shared
from streams.clock import boottime
from streams.stores.rows import GroupStatus

PARTITIONS = 8
HANDLER_SECONDS = 0.005
WAITING_SECONDS = 4.0
"""For so long there is work in each partition when something is done."""
LEASE_SECONDS = 2.0
LOOK_SECONDS = 0.01


class Crew:
    """The workers, and the app that publishes to them."""

    def __init__(
        self,
        site: Site,
        app: Streams,
        *,
        partitions: int = PARTITIONS,
        handler_seconds: float = HANDLER_SECONDS,
        waiting_seconds: float = WAITING_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self.workers: list[Worker] = []
        self._site = site
        self._app = app
        self._topic = app.topic(site.topic("orders"), Order, partitions=partitions)
        self._keys = [key_of(partition, partitions) for partition in range(partitions)]
        self._handler_seconds = handler_seconds
        self._waiting = round(waiting_seconds / handler_seconds)
        self._lease_seconds = lease_seconds

    async def start(self) -> Worker:
        """One more worker."""
        errand = self._site.errand(
            self._topic.name, partitions=self._topic.partitions, each=True, seconds=self._handler_seconds
        )
        worker = self._site.start(errand, lease_seconds=self._lease_seconds, log_level="debug")
        self.workers.append(worker)
        return worker

    async def shared(self) -> None:
        """Return when all workers have their shares, and records wait in every partition."""
        count = len(self.workers)
        await self._site.until(is_shared(count), self._app, self._topic.name)
        lags = {one.partition: one.lag for one in (await self._status()).partitions}
        await self._topic.publish_many(
            (self._keys[partition], order(0)) for partition, lag in lags.items() for _ in range(self._waiting - lag)
        )

    async def held_by(self, worker: Worker) -> list[int]:
        """The partitions of a worker."""
        members = {row.member for row in await self._app.admin.members() if row.pid == worker.pid}
        return [one.partition for one in (await self._status()).partitions if one.owner in members]

    def remove(self, worker: Worker) -> None:
        """It is gone, or about to be."""
        self.workers.remove(worker)

    async def epochs(self) -> dict[int, int]:
        """The epoch of each partition."""
        return {one.partition: one.epoch for one in (await self._status()).partitions}

    async def owners(self) -> dict[int, str | None]:
        """The member that holds each partition."""
        return {one.partition: one.owner for one in (await self._status()).partitions}

    def starts(self) -> list[Start]:
        """All that is noted by those who are there."""
        return [start for worker in self.workers for start in worker.notes.look()]

    async def started(self, above: dict[int, int]) -> dict[int, Start]:
        """The first start in each of these partitions under an epoch above the one given; waits for all of them."""
        deadline = boottime() + PATIENCE_SECONDS
        while (found := self._first(above)).keys() != above.keys():
            self._site.check()
            if boottime() > deadline:
                raise BenchFailed(f"{self._site.name}: nothing started in {sorted(above.keys() - found.keys())}")
            await anyio.sleep(LOOK_SECONDS)
        return found

    def _first(self, above: dict[int, int]) -> dict[int, Start]:
        found: dict[int, Start] = {}
        for start in self.starts():
            partition = start.partition
            if start.epoch > above.get(partition, start.epoch) and start.at < found.get(partition, _LATEST).at:
                found[partition] = start
        return found

    async def _status(self) -> GroupStatus:
        found = await self._site.status(self._app, self._topic.name, GROUP)
        assert found is not None
        return found


_LATEST = Start(float("inf"), float("inf"), 0, 0, 0)

"""Where the demo's group is at a moment: who owns which partition, and how far it has got."""

import socket
from typing import NamedTuple

from streams import Streams
from streams.cli.demo.fleet import Fleet
from streams.cli.demo.plan import GROUP


class Standing(NamedTuple):
    """For each partition its owner's name, None without one, and its lag; `settled` counts the records of all."""

    owners: dict[int, str | None]
    lags: dict[int, int]
    settled: int

    @property
    def lag(self) -> int:
        """Of all partitions."""
        return sum(self.lags.values())

    def held_by(self, owner: str | None) -> list[int]:
        """The partitions of one owner, or of none."""
        return [partition for partition, name in self.owners.items() if name == owner]


NOWHERE = Standing({}, {}, 0)


class Lookout:
    """Looks at the database as any operator could."""

    def __init__(self, app: Streams, topic: str, fleet: Fleet) -> None:
        self._app = app
        self._topic = topic
        self._fleet = fleet
        self._names: dict[str, str] = {}

    async def look(self) -> Standing:
        """The standing now; `NOWHERE` before the first worker has made the group."""
        for group in await self._app.admin.groups():
            if (group.group, group.topic) == (GROUP, self._topic):
                await self._learn({p.owner for p in group.partitions if p.owner is not None})
                owners = {p.partition: p.owner and self._names.get(p.owner) for p in group.partitions}
                lags = {p.partition: p.lag for p in group.partitions}
                return Standing(owners, lags, sum(p.end - p.lag for p in group.partitions))
        return NOWHERE

    async def _learn(self, members: set[str]) -> None:
        """Which worker a member is: it joins under a new id at every start."""
        if members <= self._names.keys():
            return
        workers = {worker.pid: worker.name for worker in self._fleet.workers}
        for row in await self._app.admin.members():
            if row.host == socket.gethostname() and row.pid in workers:
                self._names[row.member] = workers[row.pid]

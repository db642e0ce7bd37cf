"""Several real workers on one event loop in virtual time, and what goes wrong around them, all drawn from one seed."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import trio
import trio.testing

from partition import Lease
from streams.stores.memory import MemoryStore
from streams.stores.rows import Cursor, PartitionStatus
from streams.topic import Topic
from tests.simulation.checker import Checker, Violation
from tests.simulation.node import LEASE_SECONDS, Node
from tests.simulation.withholding import Withholding

CHAOS_SECONDS = 40.0
CALM_SECONDS = 600.0
SWEEP_SECONDS = 8 * LEASE_SECONDS
"""A silent member is found dead within two leases, also when the clock has stepped back; one that took over meanwhile,
and had been paused in the middle of joining, may have to be found dead after it.
"""
START_MICROS = 1_700_000_000_000_000


class World:
    """The database, its clock, and the nodes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.checker = Checker()
        self.withholding = Withholding(seed)
        self.store = MemoryStore(clock=self._database_micros)
        self.nodes: list[Node] = []
        self.away = False
        self.stepped = float("-inf")  # when the database's clock last stepped forward
        self.partitions = self.random.choice([1, 2, 4, 8])
        self.keys = [f"key-{number}" for number in range(self.random.choice([1, 3, 10]))]
        self.failures = self.random.choice([0.0, 0.05, 0.3])
        self.longest_handler = self.random.choice([0.1, 0.5, 1.5, 3.0])
        self._fault_rate = self.random.choice([0.0, 0.02, 0.1])
        self.stubborn = self.random.choice([0.0, 0.0, 0.05])
        self._slow = self.random.choice([0.0, 0.001, 0.02, 0.2])
        self._step_micros = 0
        self._number = 0
        self._names = 0

    def _database_micros(self) -> int:
        return START_MICROS + round(trio.current_time() * 1_000_000) + self._step_micros

    def delay(self) -> float:
        """How long the way to the database or back takes."""
        return (
            self.random.uniform(0, self._slow)
            if self.random.random() < 0.95
            else self.random.uniform(0, 20 * self._slow)
        )

    def fault(self) -> str | None:
        """What goes wrong with a call."""
        return self.random.choice(["before", "after", "late"]) if self.random.random() < self._fault_rate else None

    def holder(self, lease: Lease) -> tuple[str | None, int]:
        """Who holds a lease, under which epoch."""
        held = self.store._state.groups[lease.group, lease.topic][lease.partition].lease
        return held.member, held.epoch

    def settled(self, lease: Lease) -> tuple[int, int]:
        """Epoch and number of the last settlement of a lease's partition."""
        return self.store._state.groups[lease.group, lease.topic][lease.partition].key

    def later(self, verb: Callable[[], Awaitable[object]]) -> None:
        """Let a statement arrive when nobody waits for it any more."""

        async def arrive() -> None:
            await anyio.sleep(self.random.uniform(0, 3 * LEASE_SECONDS))
            await verb()

        self._group.start_soon(arrive)

    # What happens

    async def run(self) -> None:
        """Chaos, then calm, then the end of the workers; violations are raised when they happen."""
        self.topic: Topic[int] = Topic(None, "numbers", int, partitions=self.partitions)  # type: ignore[arg-type]
        row = await self.store.ensure_topic("numbers", self.partitions, "json")
        self._topic_id = row.id
        async with anyio.create_task_group() as group:
            self._group = group
            for _ in range(self.random.choice([1, 2, 3, 4])):
                self._start()
            await self.publish(self.random.choice([5, 40, 150]))
            ends = trio.current_time() + CHAOS_SECONDS
            while trio.current_time() < ends:
                await anyio.sleep(self.random.uniform(0.0, 3.0))
                await self._trouble()
                self.checker.raise_what_was_found()
            await self._heal()
            await self._calm()
            await self._stop()
            self.checker.raise_what_was_found()
            group.cancel_scope.cancel()

    def _start(self) -> None:
        self._names += 1
        node = Node(f"node-{self._names}", self)
        self.nodes.append(node)
        self._group.start_soon(node.run)

    async def publish(self, count: int) -> None:
        """More records, each a higher number than all before."""
        publications = []
        for _ in range(count):
            self._number += 1
            key = self.random.choice(self.keys)
            publications.append((key, self.topic.prepare(key, self._number, None).on(self._topic_id)))
        await self.store.append([publication for _, publication in publications])
        for key, publication in publications:
            self.checker.published[key].append(int(publication.payload))

    async def _trouble(self) -> None:
        working = [node for node in self.nodes if not node.crashed and not node.stop.is_set()]
        node = self.random.choice(working)
        match self.random.choice(
            ["crash", "pause", "resume", "stop", "start", "mute", "away", "back", "step", "publish"]
        ):
            case "crash" if len(working) > 1 or self.random.random() < 0.3:
                node.resume()
                node.crash()
                self._start()
            case "pause":
                node.pause()
            case "resume":
                node.resume()
            case "stop" if len(working) > 1 and not node.paused:
                node.stop.set()
            case "start" if len(working) < 5:
                self._start()
            case "mute":
                node.mute_until = trio.current_time() + self.random.uniform(0, 2 * LEASE_SECONDS)
            case "away":
                self.away = True
            case "back":
                self.away = False
            case "step":
                self._step()
            case _:
                await self.publish(self.random.choice([1, 5, 20]))

    def _step(self) -> None:
        """The database's clock steps, forward or back."""
        seconds = self.random.uniform(-20 * LEASE_SECONDS, 3 * LEASE_SECONDS)
        self._step_micros += round(seconds * 1_000_000)
        if seconds > 0:
            self.stepped = trio.current_time()

    async def _heal(self) -> None:
        self.away = False
        self._fault_rate = 0.0
        self.withholding.rate = 0.0
        await anyio.sleep(20 * self._slow)  # what is on its way arrives
        self._slow = min(self._slow, 0.02)
        for node in self.nodes:
            node.mute_until = 0.0
            node.resume()
        await self.publish(3)

    async def _calm(self) -> None:
        """Everything is handled within a bounded time once nothing goes wrong any more."""
        with anyio.move_on_after(SWEEP_SECONDS):
            while await self._ownerless():  # noqa: ASYNC110 - in virtual time
                await anyio.sleep(0.1)
        if free := await self._ownerless():
            raise Violation(f"without a living owner after {SWEEP_SECONDS} s of calm: {free}")
        with anyio.move_on_after(CALM_SECONDS):
            while any(status.lag or status.parked for status in await self.store.groups()):  # noqa: ASYNC110 - in virtual time
                await anyio.sleep(0.5)
            self.checker.finished(await self.store.groups(), await self._doubled())
            return
        raise Violation(f"not settled within {CALM_SECONDS} s of calm: {await self.store.groups()}")

    async def _ownerless(self) -> list[PartitionStatus]:
        """Partitions that no living process holds."""
        living = tuple(f"{node.name}-" for node in self.nodes if not node.crashed)
        partitions = [p for status in await self.store.groups() for p in status.partitions]
        return [p for p in partitions if p.owner is None or not p.owner.startswith(living)]

    async def _stop(self) -> None:
        """Drains end, and leave nothing behind."""
        living = [node for node in self.nodes if not node.crashed and not node.stop.is_set()]
        for node in living:
            node.stop.set()
        with anyio.move_on_after(CALM_SECONDS):
            while any(node.drained is None for node in living):  # noqa: ASYNC110 - in virtual time
                await anyio.sleep(0.1)
        stuck = [node.name for node in living if not node.drained]
        if stuck:
            raise Violation(f"{stuck} did not drain: {[node.drained for node in living]}")
        drained = tuple(f"{node.name}-" for node in living)
        if left := [row.member for row in await self.store.members() if row.member.startswith(drained)]:
            raise Violation(f"members left behind: {left}")

    async def _doubled(self) -> dict[str, list[int]]:
        row = await self.store.topic("doubled")
        assert row is not None
        cursors = [Cursor(row.id, partition, 0, (), 1 << 30, 1 << 30) for partition in range(row.partitions)]
        found: dict[str, list[int]] = {}
        for fetched in await self.store.fetch(cursors):
            for record in fetched.records:
                found.setdefault(str(record.key), []).append(int(record.payload))
        return found


def simulate(seed: int) -> Checker:
    """Run one world; the same seed gives the same run."""
    random.seed(seed)
    scheduler: Any = trio._core._run  # the way that trio's own maintainers name for a repeatable schedule
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True
    scheduler._r.seed(seed)
    world = World(seed)
    trio.run(world.run, clock=trio.testing.MockClock(autojump_threshold=0))
    return world.checker

"""A simulated process: a real worker whose store answers late or not at all, and whose time may stand still."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import anyio

from partition import Beat, Lease
from streams import Context, Retry, Streams
from streams.errors import PublishUncertain, StoreUnavailable
from streams.settings import Settings
from streams.stores.memory import MemoryStore
from streams.stores.protocol import Store
from streams.stores.rows import Held, Settlement, Verdict
from streams.worker import Worker
from tests.simulation.checker import Run

if TYPE_CHECKING:
    from tests.simulation.world import World

LEASE_SECONDS = 2.0
PAUSED_RATE = 0.1
"""How fast a paused node's own clock goes. Not 0, or its loops that wait for a time would turn for ever."""
NOTICE_SECONDS = 0.3
"""So long after it goes on, a node that was paused may not have noticed yet."""
SETTINGS = Settings(lease_seconds=LEASE_SECONDS, handover_seconds=8.0, shutdown_seconds=30.0)


class Node:
    """One worker process."""

    def __init__(self, name: str, world: "World") -> None:
        self.name = name
        self.world = world
        self.crashed = False
        self.mute_until = 0.0  # its heartbeats get lost until then
        self.stop = anyio.Event()
        self.drained: bool | None = None
        self.scope = anyio.CancelScope()
        self._paused_at: float | None = None
        self._lag = 0.0  # of its clock behind the world's, for now
        self._resumed = anyio.Event()
        self._resumed_at = float("-inf")
        self.store = cast(Store, NodeStore(self, world.store))

    # Time

    def clock(self) -> float:
        """This node's clock: while paused it hardly moves, afterwards it has jumped."""
        now = anyio.current_time()
        return now if self._paused_at is None else self._paused_at + (now - self._paused_at) * PAUSED_RATE

    def pause(self) -> None:
        """Stop the process."""
        if self._paused_at is None:
            self._paused_at = anyio.current_time()
            self._resumed = anyio.Event()

    def resume(self) -> None:
        """Let it go on."""
        if self._paused_at is not None:
            self._paused_at = None
            self._resumed_at = anyio.current_time()
            self._resumed.set()

    @property
    def paused(self) -> bool:
        """Whether it is stopped."""
        return self._paused_at is not None

    def excused(self) -> bool:
        """Whether it may overlap: paused, or just resumed; or the database's clock has stepped forward lately."""
        now = anyio.current_time()
        return (
            self.crashed
            or self.paused
            or now < self._resumed_at + NOTICE_SECONDS
            or now < self.world.stepped + LEASE_SECONDS
        )

    async def gate(self) -> None:
        """Where a paused process stands still, and a crashed one for ever."""
        while self.paused:
            await self._resumed.wait()
        if self.crashed:
            await anyio.sleep_forever()

    # Work

    async def run(self) -> None:
        """Work until told to stop, or crashed."""
        app = Streams("memory://")
        numbers = app.topic("numbers", int, partitions=self.world.partitions)
        doubled = app.topic("doubled", int, partitions=self.world.partitions)
        retry = Retry(attempts=1000, wait=lambda state: self.world.random.uniform(0, 0.5))
        ids = {
            topic.name: (await self.world.store.ensure_topic(topic.name, topic.partitions, "json")).id
            for topic in (numbers, doubled)
        }

        @numbers.subscribe(group="by-key", retry=retry, concurrency=8)
        async def by_key(number: int, ctx: Context) -> None:
            ctx.publish(doubled, ctx.key, number * 2)
            await self._handle(number, ctx)

        @numbers.subscribe(group="by-partition", order="partition", retry=retry)
        async def by_partition(number: int, ctx: Context) -> None:
            await self._handle(number, ctx)

        worker = Worker(
            self.store,
            list(app._subscriptions.values()),
            SETTINGS,
            prepare=lambda topic, key, payload, headers: (
                app._declared(topic).prepare(key, payload, headers).on(ids[app._declared(topic).name])
            ),
            topic_ids=ids,
            clock=self.clock,
            heart_in_thread=False,
            new_id=lambda: f"{self.name}-{self.world.random.getrandbits(48):012x}",
        )
        with self.scope:
            while self.drained is None:
                try:
                    self.drained = await worker.run(self.stop)
                except (StoreUnavailable, PublishUncertain):
                    await anyio.sleep(0.1)

    async def _handle(self, number: int, ctx: Context) -> None:
        assert ctx.key is not None
        checker, random = self.world.checker, self.world.random
        stubborn = random.random() < self.world.stubborn
        run = Run(self.name, ctx.key, number, self.excused, stubborn)
        if ctx.lease_lost:
            checker.found(f"{run} starts although its lease is not trusted")
        checker.started(ctx.group, run)
        handled = False
        try:
            if stubborn:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(random.uniform(0, 3 * LEASE_SECONDS))
            for _ in range(random.choice([0, 1, 1, 2])):
                await anyio.sleep(random.choice([0.0, 0.001, 0.02, 0.1, self.world.longest_handler]))
                await self.gate()
            if random.random() < self.world.failures:
                raise RuntimeError("a handler that fails now and then")
            handled = True
        finally:
            checker.ended(ctx.group, run, handled=handled and not self.crashed)

    def crash(self) -> None:
        """The process is gone: it does nothing any more, and cannot say so."""
        self.crashed = True
        self.scope.cancel()


class NodeStore:
    """A node's way to the database."""

    poll_seconds = 1.0

    def __init__(self, node: Node, store: MemoryStore) -> None:
        self.withholds = node.world.withholding.active
        self._node = node
        self._store = store

    def sibling(self, *, bound_seconds: float | None = None) -> "NodeStore":
        """A connection of the heart's."""
        return NodeStore(self._node, self._store.sibling())

    async def open(self, *, migrate: bool, create: bool) -> None:
        """Opening goes well."""

    async def close(self) -> None:
        """A crashed process closes its connections too."""

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)

        async def call(*args: Any, **named: Any) -> Any:
            return await self._call(name, verb, *args, **named)

        return call

    async def _call(self, name: str, verb: Any, *args: Any, **named: Any) -> Any:
        world, node = self._node.world, self._node
        await self._pass()
        fault = world.fault()
        if name == "beat" and anyio.current_time() < node.mute_until:
            fault = "before"
        if fault == "before" or world.away:
            raise StoreUnavailable("simulated: the database is away")
        if fault == "late" and name in ("commit", "release", "acquire", "beat"):
            world.later(lambda: verb(*args, **named))
            raise StoreUnavailable("simulated: no answer, and the statement is still on its way")
        answer = await verb(*args, **named)
        if fault == "after":
            raise world.random.choice([StoreUnavailable, PublishUncertain])("simulated: the answer was lost")
        await self._pass()
        return answer

    async def _pass(self) -> None:
        await self._node.gate()
        await anyio.sleep(self._node.world.delay())
        await self._node.gate()

    async def rung(self, timeout_seconds: float) -> None:
        """Wake-ups are hints: some are lost, some come for nothing."""
        await self._node.gate()
        match self._node.world.random.choice(["heard", "heard", "lost", "spurious"]):
            case "heard":
                await self._store.rung(timeout_seconds)
            case "lost":
                await anyio.sleep(timeout_seconds)
            case _:
                await anyio.sleep(timeout_seconds * self._node.world.random.random())

    async def commit(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Every applied settlement is looked at, at the moment of its effect."""

        async def commit(settlements: Sequence[Settlement]) -> list[Verdict]:
            world = self._node.world
            before = [world.settled(settlement.lease) for settlement in settlements]
            withheld = [world.withholding.choose(settlement) for settlement in settlements]
            left = [world.withholding.without(*one) for one in zip(settlements, withheld, strict=True)]
            verdicts = await self._store.commit(left)
            for settlement, earlier in zip(left, before, strict=True):
                if world.settled(settlement.lease) != earlier:
                    world.checker.committed(settlement, world.holder(settlement.lease))
            return [
                Verdict(True, offsets) if verdict.applied else verdict
                for verdict, offsets in zip(verdicts, withheld, strict=True)
            ]

        answer: list[Verdict] = await self._call("commit", commit, settlements)
        return answer

    async def acquire(
        self, member: str, wanted: Sequence[tuple[str, str, int]], *, dead: Sequence[Beat] = ()
    ) -> list[Held]:
        """As the store does."""
        answer: list[Held] = await self._call("acquire", self._store.acquire, member, wanted, dead=dead)
        return answer

    async def release(self, leases: Sequence[Lease]) -> None:
        """As the store does."""
        await self._call("release", self._store.release, leases)

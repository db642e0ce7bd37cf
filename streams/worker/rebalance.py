"""Who should hold what: looking at members and leases, acquiring what is free, handing over what is not ours any more.

Views of members may differ for a moment: assignment is only a wish, and the lease in the store decides. Nobody takes
from a living owner; what an owner should no longer hold it hands over itself.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import anyio
from anyio.abc import TaskGroup

from partition import Beat, Judgement, Lease, Range, Sighting, assign, judge
from partition.ranges import merge
from streams.clock import TICK_SECONDS
from streams.errors import PositionBeyondLog
from streams.stores.protocol import Store
from streams.stores.rows import Held, MemberRow, View
from streams.worker.actor import Actor
from streams.worker.backoff import AWAY, Backoff
from streams.worker.dispatch import Dispatcher
from streams.worker.handover import Handover
from streams.worker.heart import Heart
from streams.worker.signal import Signal

log = logging.getLogger("streams")

Pair = tuple[str, str]
Key = tuple[str, str, int]

LOOK_SECONDS = 0.05
"""At most so often is it asked whether who may hold what has changed."""
LATE_SECONDS = 0.02
"""So long after a member's life has ended it is looked for, so that its row has expired by then."""


class Rebalancer:
    """Keeps a member's partitions as they should be."""

    def __init__(
        self,
        me: str,
        store: Store,
        dispatchers: Mapping[Pair, Dispatcher],
        topic_ids: Mapping[str, int],
        heart: Heart,
        handover: Handover,
        *,
        group: TaskGroup,
        clock: Callable[[], float],
        beat_seconds: float,
        on_moved: Callable[[Actor], None],
        on_room: Callable[[], None],
        on_lost: Callable[[Actor], None],
    ) -> None:
        self.actors: dict[Key, Actor] = {}
        self._me = me
        self._store = store
        self._dispatchers = dispatchers
        self._topic_ids = topic_ids
        self._heart = heart
        self._handover = handover
        self._group = group
        self._clock = clock
        self._beat_seconds = beat_seconds
        self._on_moved = on_moved
        self._on_room = on_room
        self._on_lost = on_lost
        self._stopped: set[Key] = set()  # held, so that nobody works on them before their position is repaired
        self._sightings: Mapping[str, Sighting] = {}
        self._rung = Signal()
        self._backoff = Backoff("members and leases cannot be read", log)

    def ring(self) -> None:
        """Somebody has written something."""
        self._rung.raise_()

    async def run(self) -> None:
        """Look on every beat, when a life may have ended, and when who may hold what has changed."""
        while True:
            try:
                generation, rest_seconds = await self.look()
                self._backoff.over()
                await self._wait(generation, rest_seconds)
            except AWAY as error:
                await self._backoff.pause(error)

    async def look(self) -> tuple[int, float]:
        """Look once and act; the generation that was seen, and when to look again at the latest, in seconds."""
        view = await self._store.view(list(self._dispatchers))
        if strays := self._strays(view):
            await self._store.release(strays)
            view = await self._store.view(list(self._dispatchers))
        beats = [Beat(row.member, row.alive_until, row.lease_micros, row.dead) for row in view.members]
        judgement = judge(beats, now=view.now, clock=self._clock(), sightings=self._sightings)
        self._sightings = judgement.sightings
        self._drop_what_passed_on(view)
        await self._acquire(self._decide(view, judgement), judgement.dead)
        rest = judgement.look_again_seconds
        return view.generation, self._beat_seconds if rest is None else min(self._beat_seconds, rest + LATE_SECONDS)

    async def _wait(self, generation: int, rest_seconds: float) -> None:
        ends = self._clock() + rest_seconds
        while (rest := ends - self._clock()) > 0:
            if await self._rung.wait(max(rest, TICK_SECONDS)):
                if await self._store.generation() != generation:
                    return
                await anyio.sleep(min(LOOK_SECONDS, max(0.0, ends - self._clock())))

    def _strays(self, view: View) -> list[Lease]:
        """Leases of ours that nobody here works on, because the answer to their acquisition was lost."""
        return [
            lease
            for lease in view.leases
            if lease.member == self._me
            and (key := (lease.group, lease.topic, lease.partition)) not in self.actors
            and key not in self._stopped
        ]

    def _drop_what_passed_on(self, view: View) -> None:
        """A lease that another holds now, or under another epoch, is lost, whatever became of our beats."""
        for lease in view.leases:
            actor = self.actors.get((lease.group, lease.topic, lease.partition))
            if actor is not None and lease.epoch > actor.lease.epoch:
                self._on_lost(actor)

    def _decide(self, view: View, judgement: Judgement) -> list[Key]:
        """Start handing over what we should not hold; what we should hold and is free."""
        owners: dict[Pair, dict[int, str]] = defaultdict(dict)
        for lease in view.leases:
            if lease.member is not None and (lease.member in judgement.live or lease.member == self._me):
                owners[lease.group, lease.topic][lease.partition] = lease.member
        wanted: list[Key] = []
        for pair, dispatcher in self._dispatchers.items():
            partitions = dispatcher.subscription.topic.partitions
            held = {key[2]: actor for key, actor in self.actors.items() if key[:2] == pair}
            staying = {p: member for p, member in owners[pair].items() if p not in held or not held[p].handing_over}
            wish = assign(
                "/".join(pair),
                partitions,
                self._willing(pair, view.members, judgement),
                staying,
                busy=[p for p, actor in held.items() if actor.running],
            )
            mine = {p for p, member in wish.items() if member == self._me}
            for partition in held.keys() - mine:
                self._hand_over(held[partition])
            wanted += [(*pair, p) for p in sorted(mine - held.keys()) if p not in owners[pair]]
        return wanted

    def _willing(self, pair: Pair, members: Sequence[MemberRow], judgement: Judgement) -> list[str]:
        """Who may hold partitions of a subscription; a member always counts itself."""
        return [
            row.member
            for row in members
            if row.member == self._me
            or (row.member in judgement.live and row.turned and not row.stopping and pair in row.serves)
        ]

    def _hand_over(self, actor: Actor) -> None:
        if not actor.handing_over:
            actor.handing_over = True
            self._group.start_soon(self._handover.run, actor, name=f"streams handover of {actor}")

    async def _acquire(self, wanted: list[Key], dead: Sequence[Beat]) -> None:
        if self._handover.stopping or not (wanted or dead):
            return
        acquired = await self._store.acquire(self._me, wanted, dead=dead)
        for held in acquired:
            self._start(held)
        if acquired:
            log.info("member %s: acquired %s", self._me, _in_words(acquired))
            self._on_room()

    def _start(self, held: Held) -> None:
        lease = held.lease
        dispatcher = self._dispatchers[lease.group, lease.topic]
        try:
            actor = Actor(
                held,
                dispatcher.subscription,
                self._topic_ids[lease.topic],
                self._heart,
                now=self._clock(),
                barred=dispatcher.barred(lease.partition),
                on_moved=self._on_moved,
                on_room=self._on_room,
            )
        except PositionBeyondLog as error:
            log.error("%s", error)
            self._stopped.add((lease.group, lease.topic, lease.partition))
            return
        self.actors[actor.key] = actor
        dispatcher.current[lease.partition] = actor


def _in_words(helds: Sequence[Held]) -> str:
    """Partitions by group and topic, neighbours together: a topic may have thousands."""
    partitions: dict[Pair, list[int]] = defaultdict(list)
    for held in helds:
        partitions[held.lease.group, held.lease.topic].append(held.lease.partition)
    return "; ".join(
        f"{topic}/{','.join(_span(one) for one in merge(sorted(found)))} of group {group}"
        for (group, topic), found in partitions.items()
    )


def _span(one: Range) -> str:
    return f"{one.low}-{one.high}" if one.low < one.high else str(one.low)

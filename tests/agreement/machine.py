"""A machine that does with all stores, in step, whatever workers and publishers may do, and some of what they may not.

Every answer is compared, and after every step all that can be seen of each database. What the machine remembers only
serves to draw steps that matter: leases that hold and leases that do not, rows that say what they said and older ones.
"""

import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from anyio.from_thread import BlockingPortal
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from partition import Beat, Lease, Progress, Range
from streams.stores.protocol import Store
from streams.stores.rows import DeadFilter, Held, MemberRow, Publication, Settlement
from tests.agreement.contender import Contender, in_one_order
from tests.agreement.panel import Panel
from tests.agreement.watch import Watch
from tests.conformance.clock import MICROS, Clock
from tests.conformance.samples import letter, parked

TOPICS = ["clicks", "orders", "Ünder"]
GROUPS = ["audit", "billing"]
MEMBERS = ["ann", "bob", "cid"]
MOST_PARTITIONS = 3
BEYOND = 4
"""No topic has this partition."""

topics = st.sampled_from(TOPICS)
members = st.sampled_from(MEMBERS)
places = st.tuples(topics, st.sampled_from([0, 1, 2, BEYOND]))
offsets = st.integers(1, 12)
sizes = st.sampled_from([0, 7, 300, 1000])
records = st.tuples(places, st.sampled_from([None, "", "key", "ключ"]), sizes)
batches = st.lists(records, max_size=6)
ranges = st.lists(st.tuples(offsets, st.integers(0, 3)), max_size=3).map(
    lambda pairs: tuple(sorted(Range(low, low + more) for low, more in pairs))
)
dead_filters = st.builds(
    lambda group, topic, partition, offset: DeadFilter(group=group, topic=topic, partition=partition, offset=offset),
    st.sampled_from([None, *GROUPS]),
    st.sampled_from([None, *TOPICS]),
    st.none() | st.integers(0, 2),
    st.none() | offsets,
)
Place = tuple[str, str, int]
Items = list[tuple[tuple[str, int], str | None, int]]
"""What to publish: the place, the key, and the size of the payload."""
Sent = tuple[Settlement, Items]
"""A settlement, and what it publishes: that has another topic id in each store."""


class Agreement(RuleBasedStateMachine):
    """All stores, from empty databases on."""

    def __init__(self, makers: dict[str, Callable[[Path, Clock], Store]], portal: BlockingPortal) -> None:
        super().__init__()
        self.clock = Clock()
        self.watch = Watch()
        self.partitions: dict[str, int] = {}
        self.rows: tuple[MemberRow, ...] = ()  # members not declared dead, at the last look
        self.held: tuple[Lease, ...] = ()  # and what they hold
        self.places: list[Place] = []  # all partitions of all groups
        self.seen: list[Beat] = []  # every row of a member that was ever looked at
        self.leases: list[Lease] = []  # every lease that was ever acquired
        self.sent: list[Sent] = []
        self.numbers: dict[Lease, int] = defaultdict(int)
        self.positions: dict[Place, int] = defaultdict(int)
        self._folder = tempfile.TemporaryDirectory()
        self.panel = Panel(makers, self.clock, Path(self._folder.name), portal)
        self.panel.open()

    def teardown(self) -> None:
        self.panel.close()
        self._folder.cleanup()

    @initialize(partitions=st.integers(1, MOST_PARTITIONS), records=batches)
    def begin_with_a_member_that_serves_a_group(self, partitions: int, records: Items) -> None:
        self.ensure_topic("orders", partitions)
        self.append([(("orders", place[1] % partitions), key, size) for place, key, size in records])
        self.panel.ask(lambda one: one.store.ensure_group("billing", "orders", "earliest"))
        self.register("ann", 10, None)
        self.acquire("ann", [("billing", "orders", partition) for partition in range(partitions)], [])

    @invariant()
    def all_databases_look_the_same(self) -> None:
        listing = self.panel.ask(Contender.listing)
        self.watch.look(listing)
        self.rows = listing.view.members
        self.held = tuple(lease for lease in listing.view.leases if lease.member is not None)
        self.places = [(lease.group, lease.topic, lease.partition) for lease in listing.view.leases]
        for group in listing.groups:
            for one in group.partitions:
                place = group.group, group.topic, one.partition
                self.positions[place] = max(self.positions[place], one.position)
        self.seen += [beat for beat in map(_beat, self.rows) if beat not in self.seen]

    # Time

    @rule(seconds=st.sampled_from([0.001, 1.0, 5.0, 9.999999, 10.0, 11.0, -0.5, -3.0, -30.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # Log

    def ensure_topic(self, topic: str, partitions: int) -> None:
        _, self.partitions[topic], _ = self.panel.ask(lambda one: one.ensure_topic(topic, partitions))

    @rule(items=batches, anywhere=st.booleans())
    def append_to_what_may_not_exist(self, items: Items, anywhere: bool) -> None:
        self.append(items if anywhere else self._where_there_are_partitions(items))

    def append(self, items: Items) -> None:
        self.panel.ask(lambda one: one.store.append(_publications(one, items)))

    @rule(
        reads=st.lists(
            st.tuples(
                st.integers(0, 8),
                ranges,
                st.sampled_from([1, 2, 3, 4, 5, 0, 100]),
                st.sampled_from([1 << 30, 1 << 30, 0, 1, 300, 600, 1500]),
            ),
            min_size=1,
            max_size=3,
        )
    )
    def fetch(self, reads: list[Any]) -> None:
        """From all partitions, above an offset, without some ranges, bounded in records and bytes."""
        places = [(topic, partition) for topic, count in self.partitions.items() for partition in range(count)]
        self.panel.ask(
            lambda one: one.store.fetch([one.cursor(*place, *limits) for limits in reads for place in places])
        )

    @rule(topic=topics, group=st.sampled_from(GROUPS), again=st.booleans())
    def look_at_what_may_not_exist(self, topic: str, group: str, again: bool) -> None:
        """Through a handle that was just opened again, or not."""
        if again:
            self.panel.ask(Contender.reopen)
        self.panel.ask(lambda one: one.topic(topic))
        self.panel.ask(lambda one: one.view([(group, topic)]))
        assert self.panel.ask(lambda one: one.store.rung(0)) is None

    # Coordination

    @rule(
        group=st.sampled_from(GROUPS),
        topic=topics,
        partitions=st.integers(0, MOST_PARTITIONS),
        start=st.sampled_from(["earliest", "latest"]),
    )
    def ensure_group(self, group: str, topic: str, partitions: int, start: str) -> None:
        """Of a topic that is there, or is made, or is not."""
        if partitions:
            self.ensure_topic(topic, partitions)
        self.panel.ask(lambda one: one.store.ensure_group(group, topic, start))

    @rule(name=members, seconds=st.sampled_from([1, 10, 20]), replaces=st.none() | members)
    def register(self, name: str, seconds: int, replaces: str | None) -> None:
        row = MemberRow(name, f"host-of-{name}", 4711, (("billing", "orders"),), seconds * MICROS)
        self.panel.ask(lambda one: one.store.register(row, replaces=replaces))

    @rule(name=members, turned=st.booleans(), stopping=st.booleans())
    def beat(self, name: str, turned: bool, stopping: bool) -> None:
        self.panel.ask(lambda one: one.store.beat(name, turned=turned, stopping=stopping))

    @rule(name=members)
    def leave(self, name: str) -> None:
        self.panel.ask(lambda one: one.store.leave(name))

    @rule(data=st.data(), name=members)
    def acquire_on_any_evidence(self, data: st.DataObject, name: str) -> None:
        never = st.builds(Beat, members, st.just(self.clock.now), st.just(10 * MICROS))
        beats = st.sampled_from(self.seen) | never if self.seen else never
        dead = data.draw(st.lists(beats, max_size=3), label="dead")
        self.acquire(name, data.draw(st.lists(self._anywhere(), max_size=5), label="wanted"), dead)

    @rule(data=st.data(), newcomer=members, beats=st.sampled_from(["late", "in time", "never"]))
    def take_over(self, data: st.DataObject, newcomer: str, beats: str) -> None:
        """From a member that is about to expire, has just done so, or has a row too far ahead; it does not know yet."""
        if not self.rows:
            return
        row = data.draw(st.sampled_from(self.rows), label="from")
        self.clock.now = row.alive_until - MICROS
        self.register(newcomer, 10, None)
        self.beat(newcomer, turned=True, stopping=False)
        if beats == "in time":
            self.beat(row.member, turned=True, stopping=False)
        far = -row.lease_micros
        self.clock.now = row.alive_until + data.draw(st.sampled_from([0, 0, -1, 1, far, far - 1]), label="late by")
        if beats == "late":
            self.beat(row.member, turned=True, stopping=False)
        self.acquire(newcomer, self.places, [_beat(row)])
        self._go_on(data, [lease for lease in self.held if lease.member == row.member])

    @rule(
        data=st.data(),
        name=st.none() | members,
        receiver=st.sampled_from(["alive", "alive", "expired", "replaced"]),
    )
    def hand_over(self, data: st.DataObject, name: str | None, receiver: str) -> None:
        """To another member, or to the same one again; also to one that may not have it any more."""
        if not self.held:
            return
        lease = data.draw(st.sampled_from(self.held), label="lease")
        self.panel.ask(lambda one: one.store.release([lease]))
        name = name or lease.member
        assert name is not None
        rows = [row for row in self.rows if row.member == name]
        if receiver == "expired" and rows:
            self.clock.now = rows[0].alive_until
        if receiver == "replaced":
            for other in MEMBERS:
                self.register(other, 10, replaces=name)
        taken = self.acquire(name, [(lease.group, lease.topic, lease.partition)], [])
        self._go_on(data, [lease, *taken])

    def _go_on(self, data: st.DataObject, leases: list[Lease]) -> None:
        """What is sent under leases that were just passed on, or around."""
        self._commit([self._settlement(data, st.just(lease)) for lease in leases])
        self.panel.ask(lambda one: one.store.release(leases[:1]))

    def acquire(self, name: str, wanted: list[Place], dead: list[Beat]) -> list[Lease]:
        async def acquire(one: Contender) -> list[Held]:
            return in_one_order(await one.store.acquire(name, wanted, dead=dead))

        taken = [held.lease for held in self.panel.ask(acquire)]
        self.leases += taken
        return taken

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        leases = data.draw(st.lists(self._leases(), max_size=3), label="leases")
        self.panel.ask(lambda one: one.store.release(leases))

    # Settlement

    @rule(data=st.data(), count=st.integers(1, 3))
    def commit(self, data: st.DataObject, count: int) -> None:
        """As a worker does, that may send what it has sent before."""
        if self.held:
            self._commit([self._settlement(data, st.sampled_from(self.held)) for _ in range(count)])

    @rule(data=st.data(), count=st.integers(0, 3))
    def commit_under_any_lease(self, data: st.DataObject, count: int) -> None:
        self._commit([self._settlement(data, self._leases()) for _ in range(count)])

    @rule(data=st.data())
    def commit_again(self, data: st.DataObject) -> None:
        if self.sent:
            self._commit(data.draw(st.lists(st.sampled_from(self.sent[-6:]), min_size=1, max_size=3), label="again"))

    @rule(which=dead_filters, remove=st.booleans())
    def look_for_dead_letters(self, which: DeadFilter, remove: bool) -> None:
        """And remove what was found."""
        self.panel.ask(lambda one: one.store.dead(which))
        if remove:
            self.panel.ask(lambda one: one.store.remove_dead(which))

    def _commit(self, drawn: list[Sent]) -> None:
        self.sent += drawn
        self.panel.ask(lambda one: one.store.commit([_for(one, *sent) for sent in drawn]))

    def _settlement(self, data: st.DataObject, leases: st.SearchStrategy[Lease]) -> Sent:
        """One that a worker might send: its position is never below what was sent before it."""
        lease = data.draw(leases, label="lease")
        place = lease.group, lease.topic, lease.partition
        self.positions[place] += data.draw(st.integers(0, 3), label="moved by")
        last = self.numbers[lease]
        number = max(1, last + data.draw(st.sampled_from([1, 1, 1, 0, -1, 3]), label="number grows by"))
        self.numbers[lease] = max(last, number)
        whole = data.draw(st.booleans(), label="whole")
        progress = Progress(number, self.positions[place], data.draw(ranges, label="settled"), whole, 1)
        items = data.draw(st.lists(records, max_size=2), label="publish")
        if not data.draw(st.sampled_from([False] * 7 + [True]), label="also where there is no partition"):
            items = self._where_there_are_partitions(items)
        dead, park, unpark = (
            data.draw(st.lists(offsets, max_size=2), label=label) for label in ("dead", "park", "unpark")
        )
        letters = tuple(letter(lease, offset, attempts=number) for offset in dead)
        rows = tuple(parked(offset, attempts=number) for offset in park)
        return Settlement(lease, progress, dead=letters, park=rows, unpark=tuple(unpark)), items

    def _leases(self) -> st.SearchStrategy[Lease]:
        """Leases that hold, mostly; that held once, or might have in other hands; and some that never did."""
        strategies = [st.builds(Lease, st.sampled_from(GROUPS), topics, st.integers(0, BEYOND), members, st.just(1))]
        if self.leases:
            strategies.append(st.sampled_from(self.leases))
        if self.held:
            held = st.sampled_from(self.held)
            by_another = st.builds(lambda lease, name: replace(lease, member=name), held, members)
            at_another_time = st.builds(lambda lease, by: replace(lease, epoch=lease.epoch + by), held, st.just(-1))
            strategies += [held, held, held, held, by_another, at_another_time]
        return st.one_of(strategies)

    def _anywhere(self) -> st.SearchStrategy[Place]:
        """Partitions of groups, and some that do not exist."""
        never = st.tuples(st.sampled_from(GROUPS), topics, st.integers(0, MOST_PARTITIONS))
        return st.sampled_from(self.places) | st.sampled_from(self.places) | never if self.places else never

    def _existing(self, place: tuple[str, int]) -> tuple[str, int]:
        """A partition that exists, for one that may not."""
        topic = place[0] if place[0] in self.partitions else "orders"
        return topic, place[1] % self.partitions[topic]

    def _where_there_are_partitions(self, items: Items) -> Items:
        return [(self._existing(place), key, size) for place, key, size in items]


def _beat(row: MemberRow) -> Beat:
    """The evidence that a looker has from a row."""
    return Beat(row.member, row.alive_until, row.lease_micros)


def _for(one: Contender, settlement: Settlement, items: Items) -> Settlement:
    """The settlement with what it publishes."""
    return msgspec.structs.replace(settlement, publish=tuple(_publications(one, items)))


def _publications(one: Contender, items: Items) -> list[Publication]:
    return [one.publication(*place, key, bytes(size)) for place, key, size in items]

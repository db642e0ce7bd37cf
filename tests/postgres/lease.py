"""Members that hold a partition of a topic of the test's own, in a database that others use too."""

from collections.abc import Sequence
from typing import Any

from partition import Beat
from streams.stores.postgres.store import PostgresStore
from streams.stores.protocol import Store
from streams.stores.rows import Held, MemberRow, Settlement, TopicRow
from tests.conformance.clock import MICROS
from tests.conformance.samples import letter, settlement
from tests.postgres.conftest import numbers
from tests.postgres.transaction import record

GROUP = "billing"


async def join(store: Store, topic: TopicRow, *, lease_seconds: float = 10) -> str:
    """Register a new member; its id."""
    await store.ensure_group(GROUP, topic.name, "earliest")
    me = f"member-{next(numbers)}"
    await store.register(MemberRow(me, "host", 4711, ((GROUP, topic.name),), round(lease_seconds * MICROS)))
    return me


async def take(store: Store, topic: TopicRow, me: str, *, dead: Sequence[Beat] = ()) -> list[Held]:
    """What it gets when it asks for the first partition."""
    return await store.acquire(me, [(GROUP, topic.name, 0)], dead=dead)


async def held_by(store: Store, topic: TopicRow) -> Held:
    """The first partition, held by a new member."""
    (held,) = await take(store, topic, await join(store, topic))
    return held


async def kill(store: PostgresStore, held: Held) -> None:
    """Declare the holder dead, as whoever has seen its row expire does."""
    await store._coordinating.use(
        lambda connection: connection.execute(
            "UPDATE streams.members SET dead = true WHERE member = $1", held.lease.member
        ),
        writes=True,
    )


def settled(held: Held, topic: TopicRow, number: int = 1, position: int = 1, **more: Any) -> Settlement:
    """A settlement that also publishes a record and writes a dead letter."""
    dead, out = letter(held.lease, position), record(topic, "out", b"%d" % position)
    return settlement(held.lease, number, position, publish=(out,), dead=(dead,), **more)


async def effects(store: Store, topic: TopicRow) -> tuple[int, int, int]:
    """How far the group got, how many records the topic has, and how many of its records are dead."""
    (status,) = [one for one in await store.groups() if one.topic == topic.name]
    (rows,) = [one.records for one in await store.topics() if one.topic == topic.name]
    return status.partitions[0].position, rows, sum(one.topic == topic.name for one in await store.dead())

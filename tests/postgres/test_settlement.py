"""A settlement is in as a whole, once, or not at all, whoever takes the lease or sends it again meanwhile."""

from contextlib import suppress

import anyio
import asyncpg
import pytest

from partition import Lease
from streams import StoreBusy
from streams.stores.postgres import coordination, settlement
from streams.stores.postgres.store import PostgresStore
from streams.stores.rows import Settlement, TopicRow, Verdict
from tests.conformance.samples import settlement as settlement_of
from tests.postgres.conftest import Connect
from tests.postgres.lease import effects, held_by, join, kill, settled, take
from tests.postgres.transaction import record, waited_for

LEASE = Lease("billing", "orders", 0, "member", 1)


async def settle(connection: asyncpg.Connection, store: PostgresStore, one: Settlement) -> None:
    """The statement of a settlement, in a transaction that stays open."""
    ids = await coordination.group_ids(store._coordinating)
    arguments = settlement.arguments([one], [ids[one.lease.group, one.lease.topic]])
    rows = await connection.fetch(store._statements["settle"], *arguments, None)
    assert [row["settlement"] for row in rows] == [1]


@pytest.mark.parametrize("outcome", ["COMMIT", "ROLLBACK"])
async def test_a_takeover_in_flight_refuses_a_settlement_as_a_whole_or_lets_it_in(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection, connect: Connect, outcome: str
) -> None:
    ann, bob = await held_by(store, orders), await join(store, orders)
    ids = await coordination.group_ids(store._coordinating)
    verdicts: list[Verdict] = []

    async def commit() -> None:
        verdicts.extend(await store.commit([settled(ann, orders)]))

    watcher = await connect()
    await kill(store, ann)
    await somebody.execute("BEGIN")
    taken = await somebody.fetch(
        "SELECT epoch FROM streams.acquire($1, $2, $3, '{}', '{}')", bob, [ids["billing", orders.name]], [0]
    )
    assert [row["epoch"] for row in taken] == [ann.lease.epoch + 1]
    async with anyio.create_task_group() as group:
        group.start_soon(commit)
        await waited_for(watcher)
        await somebody.execute(outcome)
    applied = outcome == "ROLLBACK"
    assert verdicts == [Verdict(applied)]
    assert await effects(store, orders) == ((1, 1, 1) if applied else (0, 0, 0))


async def test_a_takeover_waits_for_a_settlement_that_is_fenced_and_reads_what_it_wrote(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection, connect: Connect
) -> None:
    ann, bob = await held_by(store, orders), await join(store, orders)
    watcher = await connect()
    await somebody.execute("BEGIN")
    await settle(somebody, store, settled(ann, orders))
    await kill(store, ann)
    async with anyio.create_task_group() as group:
        positions: list[int] = []

        async def take_over() -> None:
            positions.extend(held.position for held in await take(store, orders, bob))

        group.start_soon(take_over)
        await waited_for(watcher)
        await somebody.execute("COMMIT")
    assert positions == [1]
    assert await effects(store, orders) == (1, 1, 1)


async def test_a_settlement_that_waits_for_too_long_is_busy_and_may_be_sent_again(
    store: PostgresStore, orders: TopicRow, somebody: asyncpg.Connection
) -> None:
    held = await held_by(store, orders)
    await somebody.execute("BEGIN")
    await somebody.execute("SELECT FROM streams.leases WHERE member = $1 FOR UPDATE", held.lease.member)
    with pytest.raises(StoreBusy, match="nothing was written"):
        await store.commit([settled(held, orders)])
    assert await effects(store, orders) == (0, 0, 0)
    await somebody.execute("ROLLBACK")
    assert await store.commit([settled(held, orders)]) == [Verdict(True)]
    assert await effects(store, orders) == (1, 1, 1)


@pytest.mark.parametrize("outcome", ["COMMIT", "ROLLBACK"])
async def test_a_settlement_whose_first_try_still_runs_is_in_once(
    store: PostgresStore,
    other: PostgresStore,
    orders: TopicRow,
    somebody: asyncpg.Connection,
    connect: Connect,
    outcome: str,
) -> None:
    held = await held_by(store, orders)
    watcher, again = await connect(), settled(held, orders, causes=(1,))
    await somebody.execute("BEGIN")
    await settle(somebody, store, again)
    with pytest.raises(StoreBusy, match="nothing was written"):
        await store.commit([again])
    async with anyio.create_task_group() as group:
        verdicts: list[Verdict] = []

        async def commit() -> None:
            verdicts.extend(await other.commit([again]))

        group.start_soon(commit)
        await waited_for(watcher)
        await somebody.execute(outcome)
    if outcome == "COMMIT":
        assert verdicts == [Verdict(True)]
    else:  # The first try held the slot of what is published until its end.
        assert verdicts == [Verdict(True, (1,))]
        assert await effects(store, orders) == (0, 0, 1)
        assert await other.commit([settled(held, orders, 2, causes=(1,))]) == [Verdict(True)]
    assert await store.commit([again]) == verdicts, "it answers as it did"
    assert await effects(store, orders) == (1, 1, 1)


async def test_the_same_settlement_again_and_again_from_everywhere_is_in_once(
    store: PostgresStore, other: PostgresStore, orders: TopicRow
) -> None:
    held = await held_by(store, orders)
    third = store.sibling()

    async def commit(one: PostgresStore, number: int) -> None:
        while True:
            with suppress(StoreBusy):  # Another one holds the slot of what is published.
                assert await one.commit([settled(held, orders, number, number)]) == [Verdict(True)]
                return

    for number in range(1, 20):
        async with anyio.create_task_group() as group:
            for one in (store, other, third):
                group.start_soon(commit, one, number)
    await third.close()
    assert await effects(store, orders) == (19, 19, 19)


async def test_a_lease_row_that_is_held_for_long_delays_no_other_partition(
    store: PostgresStore, shipments: TopicRow, somebody: asyncpg.Connection
) -> None:
    me = await join(store, shipments)
    await somebody.execute("BEGIN")
    await somebody.execute(
        """
        SELECT FROM streams.leases JOIN streams.groups USING (group_id)
        WHERE topic_id = $1 AND partition = 1 FOR UPDATE OF leases
        """,
        shipments.id,
    )
    taken = await store.acquire(me, [("billing", shipments.name, partition) for partition in range(4)])
    assert [held.lease.partition for held in taken] == [0, 2, 3]


def test_settlements_that_carry_much_go_in_transactions_of_their_own() -> None:
    orders = TopicRow(1, "orders", 1, "json")

    def one(*sizes: int) -> Settlement:
        return settlement_of(LEASE, publish=tuple(record(orders, None, bytes(size)) for size in sizes))

    given = [one(), one(1, 1), one(1), one(1, 1, 1, 1, 1), one(), one(60), one(60), one(200)]
    made = settlement.parts(given, records=3, size=100)
    assert [[len(each.publish) for each in part] for part in made] == [[0, 2, 1], [5], [0, 1], [1], [1]]

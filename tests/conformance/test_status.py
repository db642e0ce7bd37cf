"""What operators are shown: positions, ends, owners and lag, all from one snapshot."""

import anyio
import pytest

from streams.stores.protocol import Store
from streams.stores.rows import GroupStatus, Held, PartitionStatus, TopicRow
from tests.conformance.clock import Clock
from tests.conformance.samples import (
    BILLING,
    LEASE_SECONDS,
    ORDERS,
    PAIR,
    member,
    parked,
    publications,
    row_of,
    seen,
    settlement,
    status_of,
    take,
)


async def test_an_empty_database_has_no_groups_members_and_dead_letters(store: Store) -> None:
    assert (await store.groups(), await store.members(), await store.dead()) == ([], [], [])


async def test_a_group_is_shown_with_all_its_partitions(store: Store, orders: TopicRow, held: Held) -> None:
    await store.append(publications(orders, 10) + publications(orders, 3, partition=2))
    await store.commit([settlement(held.lease, 1, 4, (6, 7), park=(parked(9),))])
    assert await store.groups() == [
        GroupStatus(
            BILLING,
            ORDERS,
            lag=6,
            parked=1,
            partitions=(
                PartitionStatus(0, "ann", 1, position=4, end=10, lag=3, parked=1),
                PartitionStatus(1, None, 0, position=0, end=0, lag=0, parked=0),
                PartitionStatus(2, None, 0, position=0, end=3, lag=3, parked=0),
                PartitionStatus(3, None, 0, position=0, end=0, lag=0, parked=0),
            ),
        )
    ]


async def test_groups_are_shown_by_name_and_topic(store: Store, orders: TopicRow) -> None:
    await store.ensure_topic("clicks", 1, "json")
    pairs = [("b", "orders"), ("a", "orders"), ("b", "clicks"), ("c", "clicks")]
    for pair in pairs:
        await store.ensure_group(*pair, "earliest")
    assert [(group.group, group.topic) for group in await store.groups()] == sorted(pairs)


async def test_many_partitions_are_shown_in_their_order(store: Store) -> None:
    wide = await store.ensure_topic("wide", 130, "json")
    await store.ensure_group("audit", "wide", "earliest")
    await store.append(publications(wide, 1, partition=129))
    (status,) = await store.groups()
    assert [(one.partition, one.lag) for one in status.partitions] == [(n, int(n == 129)) for n in range(130)]


async def test_a_new_group_lags_by_the_whole_log_or_by_nothing(store: Store, orders: TopicRow) -> None:
    await store.append(publications(orders, 10))
    await store.ensure_group("all", ORDERS, "earliest")
    await store.ensure_group("new", ORDERS, "latest")
    assert [(group.group, group.lag) for group in await store.groups()] == [("all", 10), ("new", 0)]


LAGS: dict[str, tuple[int, list[tuple[int, int]], list[int], int]] = {
    "nothing settled": (0, [], [], 10),
    "a position": (4, [], [], 6),
    "all": (10, [], [], 0),
    "ranges above the position": (2, [(4, 5), (8, 8)], [], 5),
    "parked above the position": (2, [], [5, 7], 6),
    "parked at the position and below": (5, [], [1, 3, 5], 5),
    "parked and settled": (2, [(4, 5)], [1, 7], 5),
    "parked among what counts as settled": (2, [(4, 8)], [5, 6], 3),
    "all but the first": (0, [(2, 10)], [3], 1),
    "all parked": (0, [], list(range(1, 11)), 0),
    "a position past the end": (15, [], [], 0),
    "ranges past the end": (9, [(11, 14)], [], 0),
}


@pytest.mark.parametrize("case", LAGS)
async def test_lag_is_what_is_neither_settled_nor_parked(store: Store, orders: TopicRow, held: Held, case: str) -> None:
    position, ranges, offsets, lag = LAGS[case]
    await store.append(publications(orders, 10))
    park = tuple(parked(offset) for offset in offsets)
    await store.commit([settlement(held.lease, 1, position, *ranges, park=park)])
    status = await status_of(store)
    assert (status.position, status.end, status.lag, status.parked) == (position, 10, lag, len(offsets))
    (group,) = await store.groups()
    assert (group.lag, group.parked) == (lag, len(offsets))


async def test_an_owner_is_shown_while_it_is_alive(store: Store, held: Held, clock: Clock) -> None:
    clock.advance(LEASE_SECONDS - 0.000001)
    assert (await status_of(store)).owner == "ann"
    clock.advance(0.000001)
    status = await status_of(store)
    assert (status.owner, status.epoch) == (None, 1)


async def test_an_owner_that_was_declared_dead_is_not_shown(store: Store, held: Held, clock: Clock) -> None:
    clock.advance(LEASE_SECONDS)
    await store.acquire("nobody", [], dead=[seen(await row_of(store, "ann"))])
    clock.advance(-LEASE_SECONDS)
    assert (await status_of(store)).owner is None


async def test_an_owner_that_was_replaced_is_not_shown(store: Store, held: Held) -> None:
    await store.register(member("cid"), replaces="ann")
    assert (await status_of(store)).owner is None
    await take(store, "cid")
    status = await status_of(store)
    assert (status.owner, status.epoch) == ("cid", 2)


async def test_a_released_partition_has_no_owner(store: Store, held: Held) -> None:
    await store.release([held.lease])
    status = await status_of(store)
    assert (status.owner, status.epoch) == (None, 1)


async def test_lag_is_never_negative_while_others_write(
    store: Store, other: Store, orders: TopicRow, held: Held
) -> None:
    done = False

    async def write() -> None:
        nonlocal done
        for number in range(1, 31):
            await other.append(publications(orders, 1))
            await other.commit([settlement(held.lease, number, number)])
        done = True

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        while not done:
            status = await status_of(store)
            assert 0 <= status.end - status.position == status.lag <= 1
            await anyio.lowlevel.checkpoint()
    assert (await status_of(store, 0, PAIR)).lag == 0


async def test_keys_that_are_failing_are_shown_by_group_topic_partition_and_offset(
    store: Store, other: Store, orders: TopicRow, held: Held
) -> None:
    second = await take(store, "ann", 1)
    await store.ensure_group("audit", ORDERS, "earliest")
    (third,) = await store.acquire("ann", [("audit", ORDERS, 0)])
    rows = parked(9, key="b"), parked(3, key=None), parked(5, key="a", attempts=4), parked(7, key="b", attempts=2)
    await store.commit(
        [
            settlement(held.lease, park=(*rows, parked(4, key=None), parked(11, key="b"))),
            settlement(second.lease, park=(parked(1, key="a"),)),
            settlement(third.lease, park=(parked(2, key="a"),)),
        ]
    )
    found = await other.parked()
    assert [
        (one.group, one.topic, one.partition, one.offset, one.key, one.attempts, one.followers) for one in found
    ] == [
        ("audit", ORDERS, 0, 2, "a", 1, 0),
        (BILLING, ORDERS, 0, 3, None, 1, 0),
        (BILLING, ORDERS, 0, 4, None, 1, 0),
        (BILLING, ORDERS, 0, 5, "a", 4, 0),
        (BILLING, ORDERS, 0, 7, "b", 2, 2),
        (BILLING, ORDERS, 1, 1, "a", 1, 0),
    ]
    assert {(one.since, one.until, one.error) for one in found} == {(4, 5, "ValueError: no")}
    await store.commit([settlement(held.lease, 2, unpark=(3, 4, 5, 7, 9, 11))])
    assert [one.group for one in await other.parked()] == ["audit", BILLING]

"""A lease is taken only when it is free, and each time under a higher epoch; nobody takes from the living."""

import anyio
import pytest

from partition import Beat, Lease
from streams.stores.protocol import Store
from streams.stores.rows import Held, TopicRow
from tests.conformance.clock import MICROS, Clock
from tests.conformance.handles import Handles
from tests.conformance.samples import (
    BILLING,
    LEASE_SECONDS,
    ORDERS,
    PAIR,
    member,
    parked,
    publications,
    ranges,
    row_of,
    seen,
    settlement,
    take,
    take_again,
)

ZERO = (*PAIR, 0)


async def lease_of(store: Store, partition: int = 0) -> Lease:
    return (await store.view([PAIR])).leases[partition]


async def expire(store: Store, clock: Clock, *names: str) -> None:
    """Let everybody expire but those named."""
    clock.advance(LEASE_SECONDS - 1)
    for name in names:
        assert await store.beat(name, turned=True, stopping=False)
    clock.advance(1)


async def test_a_free_lease_is_taken(store: Store, billing: str, clock: Clock) -> None:
    (held,) = await store.acquire("ann", [ZERO])
    assert held == Held(Lease(BILLING, ORDERS, 0, "ann", 1), 0, (), 0, (), clock.now)
    assert await lease_of(store) == held.lease


async def test_whoever_takes_a_lease_learns_where_its_log_ends(store: Store, orders: TopicRow, billing: str) -> None:
    await store.append(publications(orders, 7, partition=2))
    assert (await take(store, "ann", 2)).end == 7
    assert (await take(store, "ann", 1)).end == 0


async def test_the_epoch_rises_at_every_acquisition_also_by_the_same_member(store: Store, held: Held) -> None:
    epochs = [held.lease.epoch]
    for name in ("ann", "ann", "bob", "ann"):
        await store.release([held.lease])
        held = await take(store, name)
        assert held.lease.member == name
        epochs.append(held.lease.epoch)
    assert epochs == [1, 2, 3, 4, 5]


async def test_each_partition_has_an_epoch_of_its_own(store: Store, held: Held) -> None:
    await take_again(store, held)
    assert (await take(store, "ann", 1)).lease.epoch == 1


async def test_a_lease_of_a_living_member_is_left(store: Store, held: Held) -> None:
    assert await store.acquire("bob", [ZERO]) == []
    assert await lease_of(store) == held.lease


async def test_a_lease_is_left_to_the_member_that_holds_it(store: Store, held: Held) -> None:
    assert await store.acquire("ann", [ZERO]) == []
    assert await lease_of(store) == held.lease


async def test_what_is_free_is_taken_and_the_rest_is_left(store: Store, held: Held) -> None:
    taken = await store.acquire("bob", [(*PAIR, 3), ZERO, (*PAIR, 1)])
    assert [one.lease.partition for one in taken] == [3, 1]
    assert [lease.member for lease in (await store.view([PAIR])).leases] == ["ann", "bob", None, "bob"]


async def test_a_lease_wanted_twice_is_taken_once(store: Store, billing: str) -> None:
    assert [held.lease.epoch for held in await store.acquire("ann", [ZERO, ZERO])] == [1]


@pytest.mark.parametrize("nothing", [(*PAIR, 4), (*PAIR, -1), (BILLING, "clicks", 0), ("audit", ORDERS, 0)])
async def test_what_does_not_exist_is_left(store: Store, billing: str, nothing: tuple[str, str, int]) -> None:
    assert [held.lease.partition for held in await store.acquire("ann", [nothing, ZERO])] == [0]


async def test_wanting_nothing_takes_nothing(store: Store, billing: str) -> None:
    assert await store.acquire("ann", []) == []


async def test_a_stranger_acquires_nothing(store: Store, billing: str) -> None:
    assert await store.acquire("nobody", [ZERO]) == []
    assert (await lease_of(store)).member is None


async def test_an_expired_member_acquires_nothing(store: Store, billing: str, clock: Clock) -> None:
    await expire(store, clock, "bob")
    assert await store.acquire("ann", [ZERO]) == []
    assert (await lease_of(store)).epoch == 0


async def test_a_dead_member_acquires_nothing(store: Store, held: Held) -> None:
    await store.register(member("cid"), replaces="ann")
    assert await store.acquire("ann", [ZERO, (*PAIR, 1)]) == []
    assert [lease.epoch for lease in (await store.view([PAIR])).leases] == [1, 0, 0, 0]


async def test_a_member_that_left_acquires_nothing(store: Store, billing: str) -> None:
    await store.leave("ann")
    assert await store.acquire("ann", [ZERO]) == []


async def test_an_expired_owner_that_nobody_declared_dead_keeps_its_lease(
    store: Store, held: Held, clock: Clock
) -> None:
    await expire(store, clock, "bob")
    assert await store.acquire("bob", [ZERO]) == []
    assert await lease_of(store) == held.lease


async def test_an_expired_owner_is_declared_dead_and_its_lease_taken(store: Store, held: Held, clock: Clock) -> None:
    await expire(store, clock, "bob")
    evidence = seen(await row_of(store, "ann"))
    (taken,) = await store.acquire("bob", [ZERO], dead=[evidence])
    assert taken.lease == held.lease.acquired_by("bob")
    assert [row.member for row in (await store.view([])).members] == ["bob"]
    assert not await store.beat("ann", turned=True, stopping=False)


async def test_a_lease_is_free_from_when_its_owner_was_declared_dead(store: Store, held: Held, clock: Clock) -> None:
    await expire(store, clock, "bob")
    assert await store.acquire("bob", [], dead=[seen(await row_of(store, "ann"))]) == []
    clock.advance(-LEASE_SECONDS)
    assert (await take(store, "bob")).lease.epoch == 2


async def test_an_owner_that_has_beaten_since_it_was_seen_is_not_dead(store: Store, held: Held, clock: Clock) -> None:
    evidence = seen(await row_of(store, "ann"))
    await expire(store, clock, "ann", "bob")
    assert await store.acquire("bob", [ZERO], dead=[evidence]) == []
    assert await store.beat("ann", turned=True, stopping=False)


async def test_evidence_is_void_once_the_row_says_something_else(store: Store, held: Held, clock: Clock) -> None:
    evidence = seen(await row_of(store, "ann"))
    await expire(store, clock, "ann", "bob")
    clock.advance(5)
    assert await store.beat("bob", turned=True, stopping=False)
    clock.advance(5)
    assert await store.acquire("bob", [ZERO], dead=[evidence]) == []
    assert await store.acquire("bob", [ZERO], dead=[seen(await row_of(store, "ann"))]) != []


async def test_an_owner_that_has_not_expired_is_not_dead(store: Store, held: Held, clock: Clock) -> None:
    clock.advance(LEASE_SECONDS - 0.000001)
    assert await store.acquire("bob", [ZERO], dead=[seen(await row_of(store, "ann"))]) == []
    assert await store.beat("ann", turned=True, stopping=False)


async def test_evidence_is_judged_by_the_row_and_not_by_what_it_claims(store: Store, held: Held, clock: Clock) -> None:
    row = await row_of(store, "ann")
    clock.advance(LEASE_SECONDS / 2)
    claims = [
        Beat("ann", clock.now - 1, 1),
        Beat("ann", row.alive_until, 1),
        Beat("ann", row.alive_until, 0, dead=True),
    ]
    assert await store.acquire("bob", [ZERO], dead=claims) == []
    assert await store.beat("ann", turned=True, stopping=False)


async def test_a_row_that_lies_too_far_ahead_is_evidence(store: Store, held: Held, clock: Clock) -> None:
    clock.advance(-1)  # It steps back, and her row says more than her time to live from now.
    await store.register(member("cid"))
    (taken,) = await store.acquire("cid", [ZERO], dead=[seen(await row_of(store, "ann"))])
    assert taken.lease == held.lease.acquired_by("cid")
    assert not await store.beat("ann", turned=True, stopping=False)


async def test_a_row_just_as_far_ahead_as_its_time_to_live_is_not(store: Store, held: Held) -> None:
    assert await store.acquire("bob", [ZERO], dead=[seen(await row_of(store, "ann"))]) == []


async def test_evidence_of_somebody_who_is_gone_is_nothing_special(store: Store, held: Held, clock: Clock) -> None:
    assert await store.acquire("bob", [(*PAIR, 1), ZERO], dead=[Beat("nobody", 1, MICROS)]) != []
    assert await lease_of(store) == held.lease


async def test_the_dead_are_declared_also_by_one_who_acquires_nothing(store: Store, held: Held, clock: Clock) -> None:
    await expire(store, clock)
    rows = [await row_of(store, "ann"), await row_of(store, "bob")]
    assert await store.acquire("bob", [ZERO], dead=[seen(row) for row in rows]) == []
    assert (await store.view([])).members == ()


async def test_a_successor_reads_what_its_predecessor_settled(
    store: Store, orders: TopicRow, held: Held, clock: Clock
) -> None:
    second = await take(store, "ann", 1)
    await store.append(publications(orders, 20))
    rows = parked(8), parked(5, attempts=3, key=None), parked(13, key="é")
    await store.commit(
        [
            settlement(held.lease, 1, 4, (6, 7), (10, 12), whole=True, park=rows),
            settlement(second.lease, park=(parked(1),)),
        ]
    )
    await store.commit([settlement(held.lease, 2, 4, (13, 13), unpark=(13,), park=(parked(8, attempts=2),))])
    await store.release([held.lease])
    clock.advance(1)
    left = parked(5, attempts=3, key=None), parked(8, attempts=2)
    lease = held.lease.acquired_by("bob")
    assert await take(store, "bob") == Held(lease, 4, ranges((6, 7), (10, 13)), 20, left, clock.now)


async def test_of_several_members_at_once_one_gets_a_lease(store: Store, handles: Handles, billing: str) -> None:
    names = ["ann", "bob", "cid", "dan"]
    for name in names[2:]:
        await store.register(member(name))
    won: list[Held] = []

    async def acquire(handle: Store, name: str) -> None:
        for partition in range(4):
            won.extend(await handle.acquire(name, [(*PAIR, partition)]))

    several = [store, *[await handles.open() for _ in names[1:]]]
    async with anyio.create_task_group() as group:
        for name, handle in zip(names, several, strict=True):
            group.start_soon(acquire, handle, name)
    assert sorted(held.lease.partition for held in won) == [0, 1, 2, 3]
    assert {held.lease for held in won} == set((await store.view([PAIR])).leases)


async def test_a_released_lease_is_free_and_keeps_its_epoch(store: Store, held: Held) -> None:
    await store.release([held.lease])
    assert await lease_of(store) == held.lease.released()
    assert (await take(store, "bob")).lease.epoch == 2


@pytest.mark.parametrize(
    "stale",
    [
        Lease(BILLING, ORDERS, 0, "bob", 1),
        Lease(BILLING, ORDERS, 0, "ann", 2),
        Lease(BILLING, ORDERS, 0, "ann", 0),
        Lease(BILLING, ORDERS, 0, None, 1),
        Lease(BILLING, ORDERS, 4, "ann", 1),
        Lease("audit", ORDERS, 0, "ann", 1),
    ],
)
async def test_a_lease_is_released_only_under_its_member_and_epoch(store: Store, held: Held, stale: Lease) -> None:
    other = await take(store, "ann", 1)
    await store.release([stale, other.lease])
    assert await lease_of(store) == held.lease
    assert (await lease_of(store, 1)).member is None


async def test_a_late_release_does_not_touch_the_next_acquisition(store: Store, held: Held) -> None:
    again = await take_again(store, held)
    await store.release([held.lease])
    assert await lease_of(store) == again.lease


async def test_releasing_nothing_changes_nothing(store: Store, held: Held) -> None:
    await store.release([])
    assert await lease_of(store) == held.lease


async def test_a_lease_is_seen_and_released_by_another_handle(store: Store, other: Store, held: Held) -> None:
    assert await lease_of(other) == held.lease
    await other.release([held.lease])
    assert (await lease_of(store)).member is None

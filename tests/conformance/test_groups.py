"""Groups are made once, with a lease and a position in each partition; generation tells when hands have changed."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from partition import Lease
from streams.errors import UnknownTopic
from streams.stores.protocol import Store
from streams.stores.rows import Held, TopicRow
from tests.conformance.clock import Clock
from tests.conformance.handles import Handles
from tests.conformance.samples import (
    APPLIED,
    BILLING,
    LEASE_SECONDS,
    ORDERS,
    PAIR,
    member,
    publications,
    row_of,
    seen,
    settlement,
    status_of,
    take,
    take_again,
)


async def test_a_new_group_has_a_free_lease_for_each_partition(store: Store, orders: TopicRow) -> None:
    await store.ensure_group(BILLING, ORDERS, "earliest")
    view = await store.view([PAIR])
    assert view.leases == tuple(Lease(BILLING, ORDERS, partition, None, 0) for partition in range(4))


@pytest.mark.parametrize(("start", "positions"), [("earliest", [0, 0, 0, 0]), ("latest", [3, 0, 2, 0])])
async def test_a_group_starts_where_it_was_told(
    store: Store, orders: TopicRow, start: str, positions: list[int]
) -> None:
    await store.append(publications(orders, 3) + publications(orders, 2, partition=2))
    await store.ensure_group(BILLING, ORDERS, start)
    await store.append(publications(orders, 9, partition=1))
    (status,) = await store.groups()
    assert [partition.position for partition in status.partitions] == positions
    await store.register(member("ann"))
    held = await store.acquire("ann", [(*PAIR, partition) for partition in range(4)])
    assert [(one.position, one.settled) for one in held] == [(position, ()) for position in positions]
    assert [one.end for one in held] == [3, 9, 2, 0]


async def test_a_group_that_exists_stays_as_it_is(store: Store, orders: TopicRow, held: Held) -> None:
    await store.append(publications(orders, 9))
    assert await store.commit([settlement(held.lease, 1, 4, (6, 7))]) == [APPLIED]
    before = await store.groups()
    await store.ensure_group(BILLING, ORDERS, "latest")
    assert await store.groups() == before
    again = await take_again(store, held)
    assert (again.position, again.settled) == (4, ((6, 7),))


async def test_a_group_is_made_once_by_several_handles_at_once(
    store: Store, handles: Handles, orders: TopicRow
) -> None:
    await store.append(publications(orders, 3))
    several = [store, *[await handles.open() for _ in range(3)]]
    async with anyio.create_task_group() as group:
        for handle in several:
            group.start_soon(handle.ensure_group, BILLING, ORDERS, "latest")
    (status,) = await store.groups()
    assert [partition.position for partition in status.partitions] == [3, 0, 0, 0]
    assert len((await store.view([PAIR])).leases) == 4


async def test_a_group_of_no_topic_is_a_typed_error(store: Store, orders: TopicRow) -> None:
    with pytest.raises(UnknownTopic) as caught:
        await store.ensure_group(BILLING, "nothing", "earliest")
    assert caught.value.topic == "nothing"
    assert await store.groups() == []


async def test_a_view_of_no_group_is_a_typed_error(store: Store, orders: TopicRow) -> None:
    with pytest.raises(UnknownTopic):
        await store.view([PAIR])


async def test_groups_of_one_topic_know_nothing_of_each_other(store: Store, orders: TopicRow, held: Held) -> None:
    await store.append(publications(orders, 5))
    audit = "audit", ORDERS
    await store.ensure_group(*audit, "earliest")
    await store.commit([settlement(held.lease, 1, 5)])
    assert (await status_of(store)).position == 5
    assert (await status_of(store, pair=audit)).position == 0
    (taken,) = await store.acquire("bob", [(*audit, 0)])
    assert (taken.lease, taken.position) == (Lease(*audit, 0, "bob", 1), 0)


async def test_one_group_name_serves_several_topics(store: Store, orders: TopicRow, billing: str) -> None:
    await store.ensure_topic("clicks", 2, "json")
    await store.ensure_group(BILLING, "clicks", "earliest")
    taken = await store.acquire("ann", [(BILLING, "clicks", 1), (BILLING, ORDERS, 1)])
    assert [held.lease.topic for held in taken] == ["clicks", ORDERS]


async def test_a_view_has_the_leases_of_the_pairs_that_were_asked_for(store: Store, held: Held, clock: Clock) -> None:
    await store.ensure_topic("clicks", 1, "json")
    await store.ensure_group("audit", "clicks", "earliest")
    view = await store.view([("audit", "clicks"), PAIR])
    assert [(lease.group, lease.topic, lease.partition) for lease in view.leases] == [
        ("audit", "clicks", 0),
        *[(BILLING, ORDERS, partition) for partition in range(4)],
    ]
    assert view.leases[1] == held.lease
    assert (view.now, view.generation) == (clock.now, await store.generation())
    assert (await store.view([])).leases == ()


# What changes hands, and what does not. The world is: ann holds partition 0, bob holds nothing.

CHANGES: dict[str, Callable[[Store, Held, Clock], Awaitable[object]]] = {
    "a new group": lambda store, held, clock: store.ensure_group("audit", ORDERS, "earliest"),
    "a new member": lambda store, held, clock: store.register(member("cid")),
    "a member that leaves": lambda store, held, clock: store.leave("bob"),
    "a lease taken": lambda store, held, clock: store.acquire("bob", [(*PAIR, 1)]),
    "a lease released": lambda store, held, clock: store.release([held.lease]),
    "a member that stops": lambda store, held, clock: store.beat("ann", turned=True, stopping=True),
    "a member whose loop stands still": lambda store, held, clock: store.beat("ann", turned=False, stopping=False),
    "a member found dead": lambda store, held, clock: find_dead(store, clock),
    "a refused beat": lambda store, held, clock: beat_late(store, clock),
}

CONSTANTS: dict[str, Callable[[Store, Held, Clock], Awaitable[object]]] = {
    "a group that is there": lambda store, held, clock: store.ensure_group(BILLING, ORDERS, "latest"),
    "an ordinary beat": lambda store, held, clock: store.beat("ann", turned=True, stopping=False),
    "a lease that is not free": lambda store, held, clock: store.acquire("bob", [(*PAIR, 0)]),
    "a settlement": lambda store, held, clock: store.commit([settlement(held.lease)]),
    "a look": lambda store, held, clock: store.view([PAIR]),
}


async def find_dead(store: Store, clock: Clock) -> None:
    clock.advance(LEASE_SECONDS)
    await store.acquire("nobody", [], dead=[seen(await row_of(store, "ann"))])


async def beat_late(store: Store, clock: Clock) -> None:
    clock.advance(LEASE_SECONDS)
    assert not await store.beat("ann", turned=True, stopping=False)


@pytest.mark.parametrize("change", CHANGES)
async def test_generation_grows_with(store: Store, other: Store, held: Held, clock: Clock, change: str) -> None:
    before = await other.generation()
    await CHANGES[change](store, held, clock)
    assert await other.generation() > before


@pytest.mark.parametrize("constant", CONSTANTS)
async def test_generation_stays_with(store: Store, held: Held, clock: Clock, constant: str) -> None:
    before = await store.generation()
    await CONSTANTS[constant](store, held, clock)
    assert await store.generation() == before


async def test_generation_grows_with_every_taking_of_a_lease(store: Store, held: Held) -> None:
    seen_generations = [await store.generation()]
    for partition in (1, 2, 3):
        await take(store, "bob", partition)
        seen_generations.append(await store.generation())
    assert seen_generations == sorted(set(seen_generations))

"""A member lives by its beats and the database's clock, and once it is dead nothing brings it back."""

import pytest

from streams.errors import StoreUnavailable
from streams.stores.protocol import Store
from streams.stores.rows import Held, MemberRow
from tests.conformance.clock import MICROS, Clock
from tests.conformance.samples import LEASE_SECONDS, PAIR, member, row_of, seen, take

JUST_BEFORE = LEASE_SECONDS - 0.000001


async def beat(store: Store, name: str, *, turned: bool = True, stopping: bool = False) -> bool:
    return await store.beat(name, turned=turned, stopping=stopping)


async def names_of(store: Store) -> list[str]:
    return [row.member for row in await store.members()]


async def test_a_member_is_listed_as_it_registered(store: Store, clock: Clock) -> None:
    given = MemberRow("ann", "höst", 77, (("g1", "t1"), ("g 2", "t")), 5 * MICROS, turned=False, stopping=True)
    await store.register(given)
    alive_until = clock.now + 5 * MICROS
    assert await store.members() == [
        MemberRow("ann", "höst", 77, (("g1", "t1"), ("g 2", "t")), 5 * MICROS, alive_until, turned=False, stopping=True)
    ]
    assert (await store.view([])).members == tuple(await store.members())


async def test_members_are_listed_by_name(store: Store, clock: Clock) -> None:
    for name in ("cid", "ann", "bob"):
        await store.register(member(name))
        clock.advance(1)
    assert await names_of(store) == ["ann", "bob", "cid"]
    assert [row.member for row in (await store.view([])).members] == ["ann", "bob", "cid"]


async def test_a_registered_member_is_alive_for_its_time_to_live(store: Store, clock: Clock) -> None:
    await store.register(member("ann"))
    clock.advance(JUST_BEFORE)
    assert await names_of(store) == ["ann"]
    clock.advance(0.000001)
    assert await names_of(store) == []


async def test_members_have_times_to_live_of_their_own(store: Store, clock: Clock) -> None:
    await store.register(member("ann", lease_seconds=1))
    await store.register(member("bob", lease_seconds=100))
    clock.advance(50)
    assert await names_of(store) == ["bob"]


async def test_a_beat_prolongs_life_by_the_time_to_live_from_now(store: Store, clock: Clock) -> None:
    await store.register(member("ann"))
    clock.advance(4)
    assert await beat(store, "ann")
    assert (await row_of(store, "ann")).alive_until == clock.now + LEASE_SECONDS * MICROS


async def test_a_beat_prolongs_nobody_else(store: Store, billing: str, clock: Clock) -> None:
    clock.advance(4)
    await beat(store, "ann")
    clock.advance(6)
    assert await names_of(store) == ["ann"]


async def test_a_beat_in_the_last_microsecond_counts(store: Store, clock: Clock) -> None:
    await store.register(member("ann"))
    clock.advance(JUST_BEFORE)
    assert await beat(store, "ann")


async def test_a_beat_after_the_time_to_live_is_refused(store: Store, clock: Clock) -> None:
    await store.register(member("ann"))
    clock.advance(LEASE_SECONDS)
    assert not await beat(store, "ann")
    assert await names_of(store) == []


async def test_a_refusal_is_final_also_when_the_clock_steps_back(store: Store, clock: Clock) -> None:
    await store.register(member("ann"))
    clock.advance(LEASE_SECONDS)
    assert not await beat(store, "ann")
    clock.advance(-LEASE_SECONDS)
    assert not await beat(store, "ann")
    assert await names_of(store) == []


async def test_a_beat_of_somebody_unknown_is_refused(store: Store) -> None:
    assert not await beat(store, "nobody")
    assert await store.members() == []


async def test_a_beat_of_a_member_declared_dead_is_refused(store: Store, billing: str) -> None:
    await store.register(member("cid"), replaces="ann")
    assert not await beat(store, "ann")
    assert await names_of(store) == ["bob", "cid"]


@pytest.mark.parametrize(("turned", "stopping"), [(True, False), (False, False), (True, True)])
async def test_a_beat_says_whether_the_loop_turned_and_the_member_stops(
    store: Store, billing: str, turned: bool, stopping: bool
) -> None:
    await beat(store, "ann", turned=turned, stopping=stopping)
    row = await row_of(store, "ann")
    assert (row.turned, row.stopping) == (turned, stopping)


async def test_a_member_that_replaces_another_declares_it_dead(store: Store, held: Held) -> None:
    await store.register(member("ann-2"), replaces="ann")
    assert await names_of(store) == ["ann-2", "bob"]
    assert (await take(store, "ann-2")).lease == held.lease.acquired_by("ann-2")


async def test_replacing_somebody_who_is_gone_is_nothing_special(store: Store) -> None:
    await store.register(member("ann"), replaces="nobody")
    assert await names_of(store) == ["ann"]


async def test_the_same_id_registers_only_once(store: Store, clock: Clock) -> None:
    await store.register(member("ann"))
    clock.advance(4)
    before = await row_of(store, "ann")
    with pytest.raises(StoreUnavailable):
        await store.register(member("ann"))
    assert await row_of(store, "ann") == before


async def test_registering_brings_nobody_back_to_life(store: Store, held: Held, clock: Clock) -> None:
    clock.advance(LEASE_SECONDS)
    with pytest.raises(StoreUnavailable):
        await store.register(member("ann"))
    await store.register(member("cid"), replaces="ann")
    with pytest.raises(StoreUnavailable):
        await store.register(member("ann"), replaces="cid")
    assert await names_of(store) == ["cid"]
    assert not await beat(store, "ann")


async def test_an_id_is_refused_while_its_row_is_there_though_it_could_be_removed(store: Store, held: Held) -> None:
    await store.register(member("cid"), replaces="ann")
    await take(store, "cid")  # Now nothing names her any more.
    with pytest.raises(StoreUnavailable):
        await store.register(member("ann"))
    with pytest.raises(StoreUnavailable):
        await store.register(member("bob"), replaces="bob")
    assert await names_of(store) == ["bob", "cid"]
    assert not await beat(store, "ann")


async def test_rows_of_the_dead_are_removed_when_they_hold_no_lease(store: Store, held: Held) -> None:
    await store.register(member("cid"), replaces="ann")  # She holds a lease.
    await store.register(member("dan"), replaces="bob")  # He does not.
    await store.register(member("bob"))  # So his id is free again, and hers is not.
    with pytest.raises(StoreUnavailable):
        await store.register(member("ann"))
    await take(store, "cid")
    await store.register(member("eve"))
    await store.register(member("ann"))
    assert await names_of(store) == ["ann", "bob", "cid", "dan", "eve"]


async def test_a_member_that_leaves_is_gone(store: Store, billing: str) -> None:
    await store.leave("ann")
    assert await names_of(store) == ["bob"]
    assert [row.member for row in (await store.view([])).members] == ["bob"]
    assert not await beat(store, "ann")


async def test_a_member_that_leaves_releases_what_it_holds(store: Store, held: Held) -> None:
    await take(store, "bob", 1)
    await store.leave("ann")
    leases = (await store.view([PAIR])).leases
    assert [(lease.member, lease.epoch) for lease in leases] == [(None, 1), ("bob", 1), (None, 0), (None, 0)]
    assert (await take(store, "bob", 0)).lease.epoch == 2


async def test_somebody_unknown_may_leave(store: Store, held: Held) -> None:
    await store.leave("nobody")
    assert await names_of(store) == ["ann", "bob"]
    assert (await store.view([PAIR])).leases[0] == held.lease


async def test_a_member_is_seen_by_another_handle(store: Store, other: Store, clock: Clock) -> None:
    await store.register(member("ann"))
    assert await names_of(other) == ["ann"]
    clock.advance(4)
    assert await beat(other, "ann")
    assert (await row_of(store, "ann")).alive_until == clock.now + LEASE_SECONDS * MICROS


async def test_a_view_shows_the_expired_but_not_the_dead(store: Store, billing: str, clock: Clock) -> None:
    await store.register(member("cid"), replaces="bob")
    clock.advance(LEASE_SECONDS)
    view = await store.view([])
    assert [row.member for row in view.members] == ["ann", "cid"]
    assert all(row.alive_until == view.now == clock.now for row in view.members)
    await store.acquire("nobody", [], dead=[seen(view.members[0])])
    assert [row.member for row in (await store.view([])).members] == ["cid"]

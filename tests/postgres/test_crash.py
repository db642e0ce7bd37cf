"""What a server's crash and its restart leave of members, leases and settlements."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import pytest
from anyio.to_thread import run_sync

from streams import PublishUncertain, StoreUnavailable
from streams.stores.postgres.store import PostgresStore
from streams.stores.rows import TopicRow, Verdict
from tests.conformance.samples import seen, settlement
from tests.postgres.lease import effects, held_by, join, settled, take
from tests.postgres.tail import Tail
from tests.postgres.transaction import record
from tests.servers.server import Server

T = TypeVar("T")


async def stubborn(call: Callable[[], Awaitable[T]]) -> T:
    """What a call answers once the server is there again: the first may find its connection broken."""
    with anyio.fail_after(10):
        while True:
            try:
                return await call()
            except (StoreUnavailable, PublishUncertain):
                await anyio.sleep(0.01)


def crash(server: Server) -> None:
    server.kill()
    server.start()


async def test_after_a_crash_nothing_of_who_was_there_before_is_let_in(
    store: PostgresStore, orders: TopicRow, server: Server
) -> None:
    held = await held_by(store, orders)
    assert held.lease.member is not None
    assert await store.commit([settled(held, orders, 1, 1)]) == [Verdict(True)]
    await run_sync(crash, server)
    assert server.psql("SELECT count(*) FROM streams.incarnation", store._url.place.rpartition("/")[2]) == "0"
    later = settled(held, orders, 2, 2)
    assert await stubborn(lambda: store.commit([later])) == [Verdict(False)]
    assert await take(store, orders, held.lease.member) == []
    me = held.lease.member
    bob = await join(store, orders)
    assert await store.commit([later]) == [Verdict(False)], "under a new incarnation neither"
    assert not await store.beat(me, turned=True, stopping=False)
    assert await effects(store, orders) == (1, 1, 1)
    await join(store, orders, replaces=me)
    (again,) = await take(store, orders, bob)
    assert (again.lease.epoch, again.position) == (held.lease.epoch + 1, 1)
    assert await store.commit([settled(again, orders, 1, 2)]) == [Verdict(True)]
    assert await store.commit([later]) == [Verdict(False)]
    assert await effects(store, orders) == (2, 2, 2)


async def test_after_a_crash_nobody_takes_over_from_who_may_not_know_of_it_yet(
    store: PostgresStore, orders: TopicRow, server: Server
) -> None:
    held = await held_by(store, orders)
    me = held.lease.member
    assert me is not None
    await run_sync(crash, server)
    bob = await stubborn(lambda: join(store, orders))
    for _ in range(2):
        assert not await store.beat(me, turned=True, stopping=False)
        assert await take(store, orders, bob) == [], "its handlers may still run"
    await join(store, orders, replaces=me)
    assert len(await take(store, orders, bob)) == 1


async def test_after_a_crash_who_does_not_come_back_expires(
    store: PostgresStore, orders: TopicRow, server: Server
) -> None:
    ann = await join(store, orders, lease_seconds=1)
    assert len(await take(store, orders, ann)) == 1
    await run_sync(crash, server)
    bob = await stubborn(lambda: join(store, orders))
    with anyio.fail_after(10):
        while True:
            rows = (await store.view([])).members
            dead = [seen(row) for row in rows if row.member == ann]
            if await take(store, orders, bob, dead=dead):
                break
            await anyio.sleep(0.05)


async def test_a_clean_restart_keeps_members_and_leases(store: PostgresStore, orders: TopicRow, server: Server) -> None:
    held = await held_by(store, orders)
    me = held.lease.member
    assert me is not None
    await run_sync(server.restart)
    assert await stubborn(lambda: store.beat(me, turned=True, stopping=False))
    assert await stubborn(lambda: store.commit([settled(held, orders)])) == [Verdict(True)]
    assert await effects(store, orders) == (1, 1, 1)


@pytest.mark.parametrize("how", [Server.kill, Server.stop])
async def test_what_was_published_is_there_after_it_and_what_was_open_is_not(
    store: PostgresStore, orders: TopicRow, server: Server, how: Callable[[Server], None]
) -> None:
    tail = Tail(store, orders)
    written = await store.append([record(orders, "a"), record(orders, "b")])
    assert await tail.read() == written
    await run_sync(how, server)
    with pytest.raises(StoreUnavailable):
        await store.sibling().append([record(orders, "a")])
    await run_sync(server.start)
    (offset,) = await stubborn(lambda: store.append([record(orders, "a")]))
    assert offset > 2, "no offset that anybody has seen is given out again"
    assert (await stubborn(tail.read))[-1:] == [offset]


async def test_the_next_owner_goes_on_where_the_last_one_got_to(
    store: PostgresStore, orders: TopicRow, server: Server
) -> None:
    held = await held_by(store, orders)
    await store.append([record(orders, "a")] * 3)
    assert await store.commit([settlement(held.lease, 1, 2)]) == [Verdict(True)]
    await run_sync(crash, server)
    assert held.lease.member is not None
    me = held.lease.member
    assert not await stubborn(lambda: store.beat(me, turned=True, stopping=False))
    bob = await join(store, orders, replaces=me)
    (again,) = await take(store, orders, bob)
    assert (again.position, again.end >= 3) == (2, True)

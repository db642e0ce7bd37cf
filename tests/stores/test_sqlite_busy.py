"""While another connection holds the write lock, writers wait their time, can be cancelled, and leave nothing."""

import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from streams.errors import StoreBusy, StoreUnavailable
from streams.stores.rows import Held, TopicRow
from streams.stores.sqlite.connection import TURN_SECONDS
from streams.stores.sqlite.store import SqliteStore
from tests.conformance.clock import Clock
from tests.conformance.samples import ORDERS, PAIR, member, payloads_of, publications, settlement, status_of
from tests.stores.sqlite_file import store_on

BUSY_SECONDS = 0.3
"""What the fixture's store waits."""

SLACK_SECONDS = 5.0
"""A slow machine's."""


@pytest.fixture
def lock(held: Held, connection: sqlite3.Connection) -> sqlite3.Connection:
    """Another connection that holds the write lock, and has written something that nobody sees yet."""
    connection.execute("CREATE TABLE IF NOT EXISTS mine (x)")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO mine VALUES (1)")
    return connection


async def test_a_writer_gives_up_after_its_time_with_nothing_written(
    store: SqliteStore, orders: TopicRow, lock: sqlite3.Connection
) -> None:
    started = time.monotonic()
    with pytest.raises(StoreBusy, match=r"0\.3 s.*nothing was written.*busy_seconds"):
        await store.append(publications(orders, 2))
    assert BUSY_SECONDS <= time.monotonic() - started < BUSY_SECONDS + SLACK_SECONDS
    lock.execute("COMMIT")
    assert await payloads_of(store, orders) == []
    assert await store.append(publications(orders, 1)) == [1]


async def test_every_verb_that_writes_gives_up(
    path: Path, clock: Clock, orders: TopicRow, held: Held, lock: sqlite3.Connection
) -> None:
    store = store_on(path, "?busy_seconds=0", clock=clock)
    await store.open(migrate=False, create=False)
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: store.ensure_topic("clicks", 1, "json"),
        lambda: store.append(publications(orders, 1)),
        lambda: store.ensure_group("audit", ORDERS, "latest"),
        lambda: store.register(member("cid")),
        lambda: store.beat("ann", turned=False, stopping=True),
        lambda: store.leave("ann"),
        lambda: store.acquire("ann", [(*PAIR, 1)]),
        lambda: store.release([held.lease]),
        lambda: store.commit([settlement(held.lease, 1, 5)]),
    ]
    before = await store.groups(), await store.topics(), await store.view([PAIR])
    for write in writes:
        with pytest.raises(StoreBusy):
            await write()
    lock.execute("ROLLBACK")
    assert (await store.groups(), await store.topics(), await store.view([PAIR])) == before
    await store.close()


async def test_verbs_that_find_nothing_to_write_do_not_wait(
    store: SqliteStore, orders: TopicRow, lock: sqlite3.Connection
) -> None:
    assert await store.ensure_topic(ORDERS, 4, "json") == orders
    await store.ensure_group(*PAIR, "latest")


async def test_readers_do_not_wait(store: SqliteStore, orders: TopicRow, lock: sqlite3.Connection) -> None:
    assert await payloads_of(store, orders) == []
    assert (await store.view([PAIR])).leases[0].member == "ann"
    assert (await status_of(store)).owner == "ann"
    assert await store.generation() > 0
    assert await store.dead() == []


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_waiting_write_goes_on_when_the_lock_is_free(
    path: Path, clock: Clock, orders: TopicRow, lock: sqlite3.Connection
) -> None:
    store = store_on(path, "?busy_seconds=60", clock=clock)
    await store.open(migrate=False, create=False)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(store.append, publications(orders, 2))
            await anyio.wait_all_tasks_blocked()
            lock.execute("COMMIT")
    assert await payloads_of(store, orders) == [b"1", b"2"]
    await store.close()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_waiting_write_is_cancelled_promptly_and_never_happens(
    path: Path, clock: Clock, orders: TopicRow, lock: sqlite3.Connection
) -> None:
    store = store_on(path, "?busy_seconds=60", clock=clock)
    await store.open(migrate=False, create=False)
    started = time.monotonic()
    with anyio.move_on_after(0.05) as scope:
        await store.append(publications(orders, 2))
    assert scope.cancelled_caught
    assert time.monotonic() - started < 0.05 + TURN_SECONDS + SLACK_SECONDS
    lock.execute("COMMIT")
    assert await payloads_of(store, orders) == []
    assert await store.append(publications(orders, 1)) == [1]
    await store.close()


async def test_a_write_in_the_queue_behind_a_waiting_one_is_cancelled_too(
    store: SqliteStore, orders: TopicRow, lock: sqlite3.Connection
) -> None:
    started = time.monotonic()
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(store.append, publications(orders, 1))
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert time.monotonic() - started < TURN_SECONDS + SLACK_SECONDS
    lock.execute("COMMIT")
    assert await payloads_of(store, orders) == []


async def test_a_bounded_sibling_waits_no_longer_than_its_bound(
    path: Path, clock: Clock, held: Held, lock: sqlite3.Connection
) -> None:
    heart = store_on(path, "?busy_seconds=60", clock=clock).sibling(bound_seconds=0.1)
    await heart.open(migrate=False, create=False)
    started = time.monotonic()
    with pytest.raises(StoreBusy):
        await heart.beat("ann", turned=True, stopping=False)
    assert time.monotonic() - started < 0.1 + SLACK_SECONDS
    lock.execute("COMMIT")
    assert await heart.beat("ann", turned=True, stopping=False)
    await heart.close()


async def test_closing_ends_a_waiting_write_and_is_bounded(
    path: Path, clock: Clock, orders: TopicRow, lock: sqlite3.Connection
) -> None:
    store = store_on(path, "?busy_seconds=60", clock=clock)
    await store.open(migrate=False, create=False)
    errors: list[Exception] = []

    async def append() -> None:
        try:
            await store.append(publications(orders, 1))
        except StoreUnavailable as error:
            errors.append(error)

    started = time.monotonic()
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(append)
        await anyio.wait_all_tasks_blocked()
        await store.close()
    assert time.monotonic() - started < SLACK_SECONDS
    assert ["not open" in str(error) for error in errors] == [True] * 3
    lock.execute("COMMIT")


async def test_a_closed_store_answers_with_a_typed_error(store: SqliteStore, orders: TopicRow) -> None:
    await store.close()
    for verb in (store.topics, store.groups, lambda: store.rung(0), lambda: store.append(publications(orders, 1))):
        with pytest.raises(StoreUnavailable, match="not open"):
            await verb()


async def test_closing_ends_a_waiting_bell(store: SqliteStore) -> None:
    async def wait() -> None:
        with suppress(StoreUnavailable):
            await store.rung(60)

    await store.rung(0)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await store.close()


async def test_closing_closes_also_when_it_is_cancelled(
    path: Path, clock: Clock, orders: TopicRow, nothing_is_left: None
) -> None:
    store = store_on(path, clock=clock)
    await store.open(migrate=False, create=False)
    await store.append(publications(orders, 1))
    await store.rung(0)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.close()


async def test_a_bell_without_listening_waits_out_its_time(path: Path, clock: Clock, orders: TopicRow) -> None:
    store = store_on(path, "?listen=off", clock=clock)
    await store.open(migrate=False, create=False)
    await store.append(publications(orders, 1))
    started = anyio.current_time()
    await store.rung(0.05)
    assert anyio.current_time() - started > 0.045
    await store.close()

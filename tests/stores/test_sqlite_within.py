"""Publishing in the caller's own transaction: it commits or vanishes with it, and SQLite's errors pass unchanged."""

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from streams.errors import InvalidConnection, UnknownTopic
from streams.stores.rows import Publication, TopicRow
from streams.stores.sqlite.store import SqliteStore
from streams.stores.sqlite.url import parse
from tests.conformance.clock import Clock
from tests.conformance.leaks import nothing_left
from tests.conformance.samples import payloads_of, publication, publications, records_of


@pytest.fixture
def users(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The user's connection with a table of theirs and a transaction open."""
    connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO orders VALUES (7)")
    return connection


async def test_what_is_published_commits_with_the_callers_rows(
    store: SqliteStore, orders: TopicRow, users: sqlite3.Connection
) -> None:
    assert await store.within(users).append(publications(orders, 2)) == [1, 2]
    assert await payloads_of(store, orders) == []
    users.execute("COMMIT")
    assert await payloads_of(store, orders) == [b"1", b"2"]
    assert [topic.records for topic in await store.topics()] == [2]
    assert users.execute("SELECT id FROM orders").fetchall() == [(7,)]


async def test_what_is_published_vanishes_with_the_callers_rows(
    store: SqliteStore, orders: TopicRow, users: sqlite3.Connection
) -> None:
    await store.within(users).append(publications(orders, 2))
    users.execute("ROLLBACK")
    assert await payloads_of(store, orders) == []
    assert await store.append(publications(orders, 1)) == [1]


async def test_it_goes_on_where_the_log_ends(store: SqliteStore, orders: TopicRow, users: sqlite3.Connection) -> None:
    users.execute("COMMIT")
    await store.append(publications(orders, 3))
    users.execute("BEGIN IMMEDIATE")
    within = store.within(users)
    assert await within.append(publications(orders, 1)) == [4]
    assert await within.append(publications(orders, 2)) == [5, 6]
    users.execute("COMMIT")
    assert [record.offset for record in await records_of(store, orders)] == [1, 2, 3, 4, 5, 6]


async def test_what_is_published_carries_the_time_of_the_write(
    store: SqliteStore, orders: TopicRow, users: sqlite3.Connection, clock: Clock
) -> None:
    await store.within(users).append(publications(orders, 1))
    users.execute("COMMIT")
    assert [record.published_at for record in await records_of(store, orders)] == [clock.now]


async def test_a_topic_is_made_and_seen_inside_the_transaction(store: SqliteStore, users: sqlite3.Connection) -> None:
    within = store.within(users)
    assert await within.topic("clicks") is None
    made = await within.ensure_topic("clicks", 2, "bytes")
    assert await within.topic("clicks") == made == await within.ensure_topic("clicks", 9, "json")
    assert await within.append(publications(made, 1, partition=1)) == [1]
    assert await store.topic("clicks") is None
    users.execute("ROLLBACK")
    assert await store.topic("clicks") is None


async def test_a_transaction_that_python_began_by_itself_will_do(
    store: SqliteStore, orders: TopicRow, users: sqlite3.Connection, path: Path
) -> None:
    users.execute("COMMIT")
    with closing(sqlite3.connect(path)) as legacy:
        legacy.execute("INSERT INTO orders VALUES (8)")
        await store.within(legacy).append(publications(orders, 1))
        assert legacy.in_transaction
        legacy.rollback()
        assert await payloads_of(store, orders) == []
        legacy.execute("INSERT INTO orders VALUES (8)")
        await store.within(legacy).append(publications(orders, 1))
        legacy.commit()
    assert await payloads_of(store, orders) == [b"1"]


async def test_waiting_readers_are_woken_after_the_commit_only(
    store: SqliteStore, orders: TopicRow, users: sqlite3.Connection
) -> None:
    await store.rung(0)
    await store.within(users).append(publications(orders, 1))
    started = anyio.current_time()
    await store.rung(0.05)
    assert anyio.current_time() - started > 0.045
    users.execute("COMMIT")
    with anyio.fail_after(5):
        await store.rung(60)


FACTORIES: dict[str, tuple[str, Callable[..., object]]] = {
    "rows": ("row_factory", sqlite3.Row),
    "sets": ("row_factory", lambda cursor, row: set(row)),
    "nothing": ("row_factory", lambda cursor, row: None),
    "bytes": ("text_factory", bytes),
    "no text at all": ("text_factory", lambda text: None),
}


@pytest.mark.parametrize("kind", FACTORIES)
async def test_what_the_caller_makes_of_rows_does_not_matter(
    store: SqliteStore, orders: TopicRow, users: sqlite3.Connection, kind: str
) -> None:
    attribute, factory = FACTORIES[kind]
    setattr(users, attribute, factory)
    within = store.within(users)
    assert await within.topic("orders") == orders == await within.ensure_topic("orders", 4, "json")
    assert await within.append([publication(orders, key="Zoë"), publication(orders, 1)]) == [1, 1]
    assert getattr(users, attribute) is factory
    users.execute("COMMIT")
    assert [record.key for record in await records_of(store, orders)] == ["Zoë"]


async def test_an_append_that_fails_leaves_nothing_for_the_caller_to_commit(
    store: SqliteStore, orders: TopicRow, users: sqlite3.Connection
) -> None:
    within = store.within(users)
    await within.append([publication(orders, payload=b"before")])
    with pytest.raises(UnknownTopic):
        await within.append([publication(orders), Publication(orders.id, 4, None, b"", None)])
    assert users.in_transaction
    await within.append([publication(orders, payload=b"after")])
    users.execute("COMMIT")
    assert await payloads_of(store, orders) == [b"before", b"after"]
    assert [topic.records for topic in await store.topics()] == [2]
    assert users.execute("SELECT id FROM orders").fetchall() == [(7,)]


async def test_what_a_block_appended_vanishes_whole_when_it_fails(
    store: SqliteStore, orders: TopicRow, users: sqlite3.Connection
) -> None:
    within = store.within(users)
    await within.append([publication(orders, payload=b"before")])

    async def append_and_fail() -> None:
        async with within.whole():
            await within.append(publications(orders, 2))
            await within.append(publications(orders, 1, partition=1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await append_and_fail()
    async with within.whole():
        await within.append([publication(orders, payload=b"after")])
    users.execute("COMMIT")
    assert await payloads_of(store, orders) == [b"before", b"after"]
    assert await payloads_of(store, orders, 1) == []
    assert users.execute("SELECT id FROM orders").fetchall() == [(7,)]


async def test_a_lock_that_another_holds_passes_as_sqlites_own_error(
    store: SqliteStore, orders: TopicRow, users: sqlite3.Connection, path: Path
) -> None:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as second:
        second.execute("BEGIN")
        second.execute("SELECT * FROM orders").fetchall()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await store.within(second).append(publications(orders, 1))
        second.execute("ROLLBACK")


async def test_a_full_disk_passes_as_sqlites_own_error(
    store: SqliteStore, orders: TopicRow, users: sqlite3.Connection
) -> None:
    (pages,) = users.execute("PRAGMA page_count").fetchone()
    users.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        await store.within(users).append([publication(orders, payload=b"x" * 100_000)])
    if users.in_transaction:
        users.execute("COMMIT")
    assert await payloads_of(store, orders) == []
    assert [topic.records for topic in await store.topics()] == [0]


@pytest.mark.parametrize("stranger", [None, "sqlite:///streams.db", 7, object(), sqlite3])
async def test_what_is_no_sqlite_connection_is_refused(store: SqliteStore, stranger: object) -> None:
    with pytest.raises(InvalidConnection, match=f"must be a sqlite3.Connection.*not {type(stranger).__name__}"):
        store.within(stranger)


async def test_a_connection_without_a_transaction_is_refused(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    with pytest.raises(InvalidConnection, match="no transaction open"):
        store.within(connection)


async def test_a_closed_connection_is_refused(store: SqliteStore, connection: sqlite3.Connection) -> None:
    connection.close()
    with pytest.raises(InvalidConnection, match="closed"):
        store.within(connection)


async def test_a_connection_of_another_thread_is_refused(store: SqliteStore, path: Path) -> None:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN")
        return connection

    with ThreadPoolExecutor(1) as thread:
        connection = thread.submit(connect).result()
        with pytest.raises(InvalidConnection, match="thread"):
            store.within(connection)
        thread.submit(connection.close).result()


@pytest.fixture(params=["another file", "in memory", "temporary"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path, nothing_is_left: None) -> Iterator[sqlite3.Connection]:
    target = {"another file": str(tmp_path / "another.db"), "in memory": ":memory:", "temporary": ""}[request.param]
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE mine (x)")
        connection.execute("BEGIN")
        yield connection


async def test_a_connection_to_another_database_is_refused(store: SqliteStore, elsewhere: sqlite3.Connection) -> None:
    with pytest.raises(InvalidConnection, match="connection= is open on"):
        store.within(elsewhere)
    assert elsewhere.in_transaction


async def test_another_file_that_has_ours_attached_is_refused(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "another.db", isolation_level=None)) as other:
        other.execute("ATTACH ? AS ours", (str(path),))
        other.execute("BEGIN")
        with pytest.raises(InvalidConnection, match=r"another\.db"):
            store.within(other)


async def test_the_same_file_by_another_name_is_the_same(
    store: SqliteStore, orders: TopicRow, path: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with closing(sqlite3.connect(link, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        assert await store.within(connection).append(publications(orders, 1)) == [1]
        connection.execute("COMMIT")
    assert await payloads_of(store, orders) == [b"1"]


async def test_a_file_that_was_removed_is_no_database_of_ours(
    store: SqliteStore, users: sqlite3.Connection, path: Path
) -> None:
    path.rename(path.with_suffix(".gone"))
    with pytest.raises(InvalidConnection):
        store.within(users)
    path.with_suffix(".gone").rename(path)


async def test_an_in_memory_file_has_no_connection_but_ours(clock: Clock) -> None:
    async with nothing_left(lambda: 1):
        store = SqliteStore(parse("sqlite:///:memory:"), clock=clock)
        await store.open(migrate=True, create=True)
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.execute("BEGIN")
            with pytest.raises(InvalidConnection):
                store.within(connection)
        await store.close()

"""With `connection=` a record is part of the caller's transaction: it commits or vanishes with it."""

import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from streams import (
    InvalidConnection,
    InvalidKey,
    InvalidPayload,
    Receipt,
    Streams,
    Topic,
    TopicMismatch,
)
from streams.batch import BATCH_RECORDS
from tests.publish.stored import payloads, stored


@pytest.fixture
def app(url: str, nothing_is_left: None) -> Streams:
    return Streams(url)


@pytest.fixture
async def orders(app: Streams) -> AsyncIterator[Topic[int]]:
    """A topic of one partition of the entered app; nobody has made its row yet."""
    async with app:
        yield app.topic("orders", int, partitions=1)


@pytest.fixture
def connection(orders: Topic[int], path: Path) -> Iterator[sqlite3.Connection]:
    """The caller's own connection, with a table of the caller's, in SQLite's autocommit mode."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        connection.execute("CREATE TABLE invoices (number INTEGER PRIMARY KEY)")
        yield connection


def invoices(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM invoices ORDER BY number")]


async def test_a_record_commits_with_the_callers_transaction(
    orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    connection.execute("BEGIN")
    connection.execute("INSERT INTO invoices VALUES (1)")
    assert await orders.publish("a", 1, headers={"a": "b"}, connection=connection) == Receipt("orders", 0, 1)
    assert payloads(path) == []
    connection.execute("COMMIT")
    assert payloads(path) == [b"1"]
    assert invoices(path) == [1]


async def test_a_record_vanishes_with_the_callers_transaction(
    orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    await orders.publish("a", 1)
    connection.execute("BEGIN")
    connection.execute("INSERT INTO invoices VALUES (1)")
    assert (await orders.publish("a", 2, connection=connection)).offset == 2
    connection.execute("ROLLBACK")
    assert (payloads(path), invoices(path)) == ([b"1"], [])
    assert (await orders.publish("a", 3)).offset == 2


async def test_the_transaction_stays_the_callers(orders: Topic[int], connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    await orders.publish("a", 1, connection=connection)
    assert connection.in_transaction


async def test_a_savepoint_of_the_callers_undoes_the_record_alone(
    orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    connection.execute("BEGIN")
    connection.execute("INSERT INTO invoices VALUES (1)")
    connection.execute("SAVEPOINT mine")
    await orders.publish("a", 1, connection=connection)
    connection.execute("ROLLBACK TO mine")
    await orders.publish("a", 2, connection=connection)
    connection.execute("COMMIT")
    assert (payloads(path), invoices(path)) == ([b"2"], [1])


async def test_a_topic_made_in_a_transaction_that_vanished_is_made_again(
    app: Streams, orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    connection.execute("BEGIN IMMEDIATE")
    assert (await orders.publish("a", 1, connection=connection)).offset == 1
    connection.execute("ROLLBACK")
    assert await app.admin.topics() == []
    connection.execute("BEGIN IMMEDIATE")
    assert (await orders.publish("a", 2, connection=connection)).offset == 1
    connection.execute("COMMIT")
    assert (await orders.publish("a", 3)).offset == 2
    assert payloads(path) == [b"2", b"3"]


async def test_a_topic_that_differs_is_refused_and_the_transaction_goes_on(
    app: Streams, orders: Topic[int], connection: sqlite3.Connection, url: str, path: Path
) -> None:
    async with Streams(url) as other:
        await other.topic("orders", int, partitions=2).publish("a", 1)
    connection.execute("BEGIN")
    connection.execute("INSERT INTO invoices VALUES (1)")
    with pytest.raises(TopicMismatch):
        await orders.publish("a", 2, connection=connection)
    connection.execute("COMMIT")
    assert (payloads(path), invoices(path)) == ([b"1"], [1])


async def test_a_refused_record_leaves_the_transaction_as_it_was(
    orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    connection.execute("BEGIN")
    connection.execute("INSERT INTO invoices VALUES (1)")
    with pytest.raises(InvalidKey):
        await orders.publish(True, 1, connection=connection)
    with pytest.raises(InvalidPayload):
        await orders.publish("a", "1", connection=connection)  # type: ignore[arg-type]
    connection.execute("COMMIT")
    assert (payloads(path), invoices(path)) == ([], [1])


CALLERS: dict[str, Callable[[Path], sqlite3.Connection]] = {
    "autocommit": lambda path: sqlite3.connect(path, isolation_level=None),
    "legacy": lambda path: sqlite3.connect(path),
    "legacy immediate": lambda path: sqlite3.connect(path, isolation_level="IMMEDIATE"),
    "legacy exclusive": lambda path: sqlite3.connect(path, isolation_level="EXCLUSIVE"),
    "of any thread": lambda path: sqlite3.connect(path, check_same_thread=False),
    "by URI": lambda path: sqlite3.connect(f"file:{path}", uri=True),
    "by another path": lambda path: sqlite3.connect(path.parent / ".." / path.parent.name / path.name),
    "without cached statements": lambda path: sqlite3.connect(path, cached_statements=0),
    "with declared types": lambda path: sqlite3.connect(path, detect_types=sqlite3.PARSE_DECLTYPES),
}

if sys.version_info >= (3, 12):
    CALLERS["always in a transaction"] = lambda path: sqlite3.connect(path, autocommit=False)
    CALLERS["by the standard's autocommit"] = lambda path: sqlite3.connect(path, autocommit=True)


@pytest.mark.parametrize("made", [False, True], ids=["a new topic", "a known topic"])
@pytest.mark.parametrize("caller", CALLERS)
async def test_every_kind_of_transaction_carries_a_record(
    orders: Topic[int], connection: sqlite3.Connection, path: Path, caller: str, made: bool
) -> None:
    if made:
        await orders.publish("a", 0)
    for ending in ("ROLLBACK", "COMMIT"):
        with closing(CALLERS[caller](path)) as other:
            if not other.in_transaction:
                other.execute("BEGIN")
            other.execute("INSERT INTO invoices VALUES (1)")
            await orders.publish("a", 1, connection=other)
            assert await orders.publish_many([("a", 2)], connection=other) == 1
            assert other.in_transaction
            other.execute(ending)
    assert payloads(path) == [b"0"] * made + [b"1", b"2"]
    assert invoices(path) == [1]


async def test_an_insert_that_opened_a_legacy_transaction_is_enough(
    orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    with closing(sqlite3.connect(path)) as legacy:
        legacy.execute("INSERT INTO invoices VALUES (1)")
        await orders.publish("a", 1, connection=legacy)
        legacy.rollback()
        assert payloads(path) == []
        with legacy:
            legacy.execute("INSERT INTO invoices VALUES (1)")
            await orders.publish("a", 2, connection=legacy)
    assert payloads(path) == [b"2"]


def upper(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> str:
    raise AssertionError("a row of ours went through the caller's factory")


@pytest.mark.parametrize("row_factory", [sqlite3.Row, lambda cursor, row: dict(enumerate(row)), upper])
@pytest.mark.parametrize("text_factory", [bytes, bytearray, lambda data: data.decode(errors="replace"), len])
async def test_the_callers_factories_do_not_matter(
    orders: Topic[int], connection: sqlite3.Connection, path: Path, row_factory: Any, text_factory: Any
) -> None:
    connection.row_factory = row_factory
    connection.text_factory = text_factory
    connection.execute("BEGIN")
    for number in (1, 2):
        assert (await orders.publish("a", number, connection=connection)).offset == number
    connection.execute("COMMIT")
    assert (connection.row_factory, connection.text_factory) == (row_factory, text_factory)
    assert payloads(path) == [b"1", b"2"]


async def test_a_connection_without_a_transaction_is_refused(
    app: Streams, orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    for publish in (
        orders.publish("a", 1, connection=connection),
        orders.publish_many([("a", 1)], connection=connection),
    ):
        with pytest.raises(InvalidConnection, match="no transaction open; begin one, publish, then commit"):
            await publish
    assert await app.admin.topics() == []
    assert not connection.in_transaction


@pytest.mark.parametrize("place", ["another file", "memory", "a temporary file"])
async def test_a_connection_to_another_database_is_refused(orders: Topic[int], tmp_path: Path, place: str) -> None:
    name = {"another file": str(tmp_path / "other.db"), "memory": ":memory:", "a temporary file": ""}[place]
    with closing(sqlite3.connect(name, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(InvalidConnection, match=r"is open on '.*', the app on '.*streams.db'"):
            await orders.publish("a", 1, connection=other)
        other.execute("ROLLBACK")


async def test_a_connection_that_only_attached_the_file_is_refused(orders: Topic[int], path: Path) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as other:
        other.execute("ATTACH ? AS shop", (str(path),))
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(InvalidConnection, match="is open on"):
            await orders.publish("a", 1, connection=other)


@pytest.mark.parametrize("name", ["streams.db", "link.db", "folder/../streams.db"])
async def test_an_app_and_a_connection_may_name_the_file_differently(
    monkeypatch: pytest.MonkeyPatch, nothing_is_left: None, path: Path, name: str
) -> None:
    monkeypatch.chdir(path.parent)
    (path.parent / "folder").mkdir()
    (path.parent / "link.db").symlink_to(path)
    app = Streams(f"sqlite:///{name}")
    orders = app.topic("orders", int)
    async with app:
        for other_name in (path, "streams.db", "link.db"):
            with closing(sqlite3.connect(other_name)) as other:
                other.execute("BEGIN")
                await orders.publish("a", 1, connection=other)
                other.commit()
    assert payloads(path) == [b"1"] * 3


async def test_a_closed_connection_is_refused(orders: Topic[int], path: Path) -> None:
    other = sqlite3.connect(path)
    other.close()
    with pytest.raises(InvalidConnection, match="cannot be used"):
        await orders.publish("a", 1, connection=other)


async def test_another_threads_connection_is_refused(orders: Topic[int], path: Path) -> None:
    made: list[sqlite3.Connection] = []
    done = threading.Event()

    def make() -> None:
        made.append(sqlite3.connect(path, isolation_level=None))
        made[0].execute("BEGIN")
        done.wait()
        made[0].close()

    thread = threading.Thread(target=make)
    thread.start()
    try:
        while not made:
            await anyio.lowlevel.checkpoint()
        with pytest.raises(InvalidConnection, match="thread"):
            await orders.publish("a", 1, connection=made[0])
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("other", [object(), "sqlite:///streams.db", 7, False], ids=["object", "url", "number", "bool"])
async def test_what_is_no_connection_is_refused(orders: Topic[int], other: object) -> None:
    with pytest.raises(InvalidConnection, match=f"sqlite3.Connection for a sqlite:// app, not {type(other).__name__}"):
        await orders.publish("a", 1, connection=other)


async def test_a_cursor_is_no_connection(orders: Topic[int], connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    with pytest.raises(InvalidConnection, match="not Cursor"):
        await orders.publish("a", 1, connection=connection.cursor())


async def test_memory_has_no_connections() -> None:
    app = Streams("memory://")
    topic = app.topic("orders", int)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("BEGIN")
        async with app:
            with pytest.raises(InvalidConnection, match="memory:// has no connections"):
                await topic.publish("a", 1, connection=connection)


async def test_our_own_publishes_wait_for_the_callers_transaction_and_it_for_none_of_them(
    orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    """Neither the topic's row nor the records need the lock that our own writer waits for here."""
    connection.execute("BEGIN IMMEDIATE")
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(orders.publish, "a", 1)
            await anyio.wait_all_tasks_blocked()
            await orders.publish("a", 2, connection=connection)
            await orders.publish_many([("a", 3)], connection=connection)
            connection.execute("COMMIT")
    assert payloads(path) == [b"2", b"3", b"1"]


async def test_a_lock_that_another_holds_is_the_drivers_own_error(
    orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    await orders.publish("a", 1)
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as other:
        other.execute("BEGIN IMMEDIATE")
        for publish in (orders.publish, orders.publish_many):
            connection.execute("BEGIN")
            args: Any = ("a", 2) if publish == orders.publish else ([("a", 2)],)
            with pytest.raises(sqlite3.OperationalError, match="database is locked") as locked:
                await publish(*args, connection=connection)
            assert type(locked.value) is sqlite3.OperationalError
            assert locked.value.sqlite_errorcode == sqlite3.SQLITE_BUSY
            connection.execute("ROLLBACK")
    assert payloads(path) == [b"1"]


async def test_a_stale_snapshot_is_the_drivers_own_error(
    orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    await orders.publish("a", 1)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM invoices").fetchall()
    await orders.publish("a", 2)
    with pytest.raises(sqlite3.OperationalError) as stale:
        await orders.publish("a", 3, connection=connection)
    assert stale.value.sqlite_errorname == "SQLITE_BUSY_SNAPSHOT"
    connection.execute("ROLLBACK")
    assert payloads(path) == [b"1", b"2"]


async def test_a_driver_error_leaves_nothing_of_the_record_in_the_transaction(
    orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    """The row of the partition was changed before; it has to be as it was."""
    await orders.publish("a", 1)
    connection.execute(
        "CREATE TEMP TRIGGER refuse BEFORE INSERT ON main.streams_records "
        "WHEN new.payload = x'37' BEGIN SELECT RAISE(ABORT, 'no sevens'); END"
    )
    connection.execute("BEGIN")
    connection.execute("INSERT INTO invoices VALUES (1)")
    with pytest.raises(sqlite3.IntegrityError, match="no sevens"):
        await orders.publish("a", 7, connection=connection)
    assert (await orders.publish("a", 8, connection=connection)).offset == 2
    connection.execute("COMMIT")
    assert [(record.offset, record.payload) for record in stored(path)] == [(1, b"1"), (2, b"8")]
    assert invoices(path) == [1]


async def test_an_error_that_ended_the_transaction_is_the_drivers_own(
    orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    await orders.publish("a", 1)
    connection.execute(
        "CREATE TEMP TRIGGER refuse BEFORE INSERT ON main.streams_records BEGIN SELECT RAISE(ROLLBACK, 'no more'); END"
    )
    connection.execute("BEGIN")
    with pytest.raises(sqlite3.IntegrityError, match="no more"):
        await orders.publish_many([("a", 2)], connection=connection)
    assert not connection.in_transaction
    assert payloads(path) == [b"1"]


async def test_many_commit_or_vanish_together(orders: Topic[int], connection: sqlite3.Connection, path: Path) -> None:
    count = BATCH_RECORDS + 500
    for ending, there in (("ROLLBACK", 0), ("COMMIT", count)):
        connection.execute("BEGIN")
        items = (("a", number) for number in range(count))
        assert await orders.publish_many(items, connection=connection) == count
        assert payloads(path) == []
        connection.execute(ending)
        assert len(payloads(path)) == there


async def test_many_that_fail_leave_nothing_in_a_transaction_that_goes_on(
    app: Streams, orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    def items() -> Iterator[tuple[str, int]]:
        yield from (("a", number) for number in range(BATCH_RECORDS + 500))
        yield True, 1  # type: ignore[misc]

    connection.execute("BEGIN")
    connection.execute("INSERT INTO invoices VALUES (1)")
    with pytest.raises(InvalidKey):
        await orders.publish_many(items(), connection=connection)
    connection.execute("COMMIT")
    assert (payloads(path), invoices(path)) == ([], [1])
    assert await app.admin.topics() == []
    assert (await orders.publish("a", 1)).offset == 1


async def test_many_that_are_cancelled_leave_nothing_in_a_transaction_that_goes_on(
    orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    async def items() -> AsyncIterator[tuple[str, int]]:
        for number in range(BATCH_RECORDS):
            yield "a", number
        scope.cancel()
        await anyio.sleep_forever()

    connection.execute("BEGIN")
    with anyio.CancelScope() as scope:
        await orders.publish_many(items(), connection=connection)
    assert scope.cancelled_caught
    connection.execute("COMMIT")
    assert payloads(path) == []


async def test_an_iterable_that_ends_the_transaction_is_told_so(
    orders: Topic[int], connection: sqlite3.Connection, path: Path
) -> None:
    def items() -> Iterator[tuple[str, int]]:
        yield "a", 1
        connection.execute("COMMIT")

    connection.execute("BEGIN")
    with pytest.raises(InvalidConnection, match="no transaction open"):
        await orders.publish_many(items(), connection=connection)
    assert payloads(path) == []


async def test_a_waiting_worker_hears_of_a_record_after_its_commit(
    app: Streams, orders: Topic[int], connection: sqlite3.Connection
) -> None:
    handled: list[tuple[int, bool]] = []
    committed = False
    done = anyio.Event()

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        handled.append((number, committed))
        if number == 2:
            done.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(app.work)
            await orders.publish("a", 1)
            while not handled:
                await anyio.lowlevel.checkpoint()
            connection.execute("BEGIN IMMEDIATE")
            await orders.publish("a", 2, connection=connection)
            await anyio.wait_all_tasks_blocked()
            committed = True
            connection.execute("COMMIT")
            await done.wait()
            group.cancel_scope.cancel()
    assert handled == [(1, False), (2, True)]

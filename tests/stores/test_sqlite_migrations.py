"""A file is brought up to date once, by whoever comes first, and one that this version cannot use is refused."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from streams.errors import MigrationNeeded, SettingsError, StoreUnavailable
from streams.stores import open_store
from streams.stores.sqlite.schema import PACKAGE, split
from streams.stores.sqlite.store import SqliteStore
from streams.stores.statements import migrations
from tests.conformance.clock import Clock
from tests.conformance.samples import payloads_of, publications
from tests.stores.sqlite_file import store_on

ROOT = Path(__file__).parents[2]
PROCESSES = 4

APPLIED = "SELECT number, name, checksum, breaking, applied_at FROM streams_migrations ORDER BY number"


def readline(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def objects(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM sqlite_schema ORDER BY name")]


async def test_every_migration_is_written_down_with_its_checksum(
    store: SqliteStore, connection: sqlite3.Connection, clock: Clock
) -> None:
    assert connection.execute(APPLIED).fetchall() == [
        (step.number, step.name, step.checksum, step.breaking, clock.now) for step in migrations(PACKAGE)
    ]


async def test_what_is_up_to_date_is_left_alone(store: SqliteStore, connection: sqlite3.Connection) -> None:
    before = connection.execute(APPLIED).fetchall()
    assert await store.migrate() == 0
    await store.open(migrate=True, create=True)
    assert connection.execute(APPLIED).fetchall() == before


async def test_migrating_says_how_many_steps_it_took(store: SqliteStore, connection: sqlite3.Connection) -> None:
    for table in objects(connection):
        if table.startswith("streams_"):
            connection.execute(f"DROP TABLE {table}")
    assert await store.migrate() == len(migrations(PACKAGE))


def test_many_processes_at_once_apply_each_migration_once(path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.stores.migrator", f"sqlite:///{path}"]
    started = [
        subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(PROCESSES)
    ]
    try:
        assert [readline(process) for process in started] == ["ready\n"] * PROCESSES
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [readline(process) for process in started] == ["1 4\n"] * PROCESSES
        assert [process.wait(30) for process in started] == [0] * PROCESSES
    finally:
        for process in started:
            process.kill()
            process.communicate()
    with closing(sqlite3.connect(path)) as connection:
        numbers = [row[0] for row in connection.execute(APPLIED)]
    assert numbers == [step.number for step in migrations(PACKAGE)]


async def test_a_migration_that_fails_leaves_nothing_of_it(
    unopened: SqliteStore, connection: sqlite3.Connection
) -> None:
    connection.execute("CREATE TABLE streams_dead (mine)")  # In the way of the first migration, at its end.
    with pytest.raises(StoreUnavailable, match="streams_dead"):
        await unopened.open(migrate=True, create=True)
    assert objects(connection) == ["streams_dead"]
    connection.execute("DROP TABLE streams_dead")
    await unopened.open(migrate=True, create=True)
    assert await unopened.topics() == []


@pytest.mark.parametrize("migrate", [True, False])
async def test_a_migration_that_was_another_one_is_refused(
    store: SqliteStore, connection: sqlite3.Connection, migrate: bool
) -> None:
    connection.execute("UPDATE streams_migrations SET checksum = 'other' WHERE number = 1")
    await store.close()
    with pytest.raises(MigrationNeeded, match=r"migration 1 \(path\) .* is not the one"):
        await store.open(migrate=migrate, create=True)


@pytest.mark.parametrize("migrate", [True, False])
async def test_a_newer_breaking_migration_is_refused(
    store: SqliteStore, connection: sqlite3.Connection, migrate: bool
) -> None:
    connection.execute("INSERT INTO streams_migrations VALUES (9999, 'future', 'x', 1, 0)")
    await store.close()
    with pytest.raises(MigrationNeeded, match=r"9999 \(future\).*upgrade"):
        await store.open(migrate=migrate, create=True)


@pytest.mark.parametrize("migrate", [True, False])
async def test_a_newer_migration_that_breaks_nothing_is_accepted(
    store: SqliteStore, connection: sqlite3.Connection, migrate: bool
) -> None:
    connection.execute("INSERT INTO streams_migrations VALUES (9999, 'future', 'x', 0, 0)")
    await store.close()
    await store.open(migrate=migrate, create=True)
    topic = await store.ensure_topic("orders", 4, "json")
    assert await store.append(publications(topic, 2)) == [1, 2]


@pytest.mark.parametrize(("migrate", "create"), [(False, False), (False, True), (True, False)])
async def test_a_missing_file_is_not_made(unopened: SqliteStore, path: Path, migrate: bool, create: bool) -> None:
    with pytest.raises(MigrationNeeded, match="streams migrate"):
        await unopened.open(migrate=migrate, create=create)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("create", [False, True])
async def test_an_empty_file_stays_empty_unless_it_may_be_migrated(
    unopened: SqliteStore, path: Path, create: bool
) -> None:
    path.touch()
    with pytest.raises(MigrationNeeded, match=r"0001_path.*streams migrate"):
        await unopened.open(migrate=False, create=create)
    assert path.stat().st_size == 0
    assert list(path.parent.iterdir()) == [path]


async def test_a_file_that_lacks_the_schema_is_not_touched_unless_it_may_be_migrated(
    unopened: SqliteStore, path: Path, connection: sqlite3.Connection
) -> None:
    connection.execute("CREATE TABLE mine (x)")
    before = path.read_bytes()
    with pytest.raises(MigrationNeeded, match="streams migrate"):
        await unopened.open(migrate=False, create=False)
    assert path.read_bytes() == before


async def test_an_existing_file_may_be_migrated_without_being_created(unopened: SqliteStore, path: Path) -> None:
    path.touch()
    await unopened.open(migrate=True, create=False)
    assert await unopened.topics() == []


async def test_an_up_to_date_file_opens_without_leave_to_migrate(store: SqliteStore) -> None:
    topic = await store.ensure_topic("orders", 4, "json")
    sibling = store.sibling()
    await sibling.open(migrate=False, create=False)
    assert await sibling.append(publications(topic, 1)) == [1]
    await sibling.close()


async def test_a_failed_opening_leaves_a_store_that_can_be_opened(
    unopened: SqliteStore, path: Path, clock: Clock
) -> None:
    with pytest.raises(MigrationNeeded):
        await unopened.open(migrate=False, create=False)
    other = store_on(path, clock=clock)
    await other.open(migrate=True, create=True)
    await other.close()
    await unopened.open(migrate=False, create=False)
    assert await unopened.topics() == []


async def test_a_failed_opening_leaves_no_connection(path: Path, clock: Clock, nothing_is_left: None) -> None:
    path.touch()
    with pytest.raises(MigrationNeeded):
        await store_on(path, clock=clock).open(migrate=False, create=False)


async def test_a_file_in_no_folder_is_unavailable(tmp_path: Path, clock: Clock, nothing_is_left: None) -> None:
    with pytest.raises(StoreUnavailable, match=r"folder .* does not exist"):
        await store_on(tmp_path / "none" / "streams.db", clock=clock).open(migrate=True, create=True)


async def test_a_file_that_is_no_database_is_unavailable(unopened: SqliteStore, path: Path) -> None:
    path.write_text("Dear diary, " * 1000)
    with pytest.raises(StoreUnavailable, match="not a database"):
        await unopened.open(migrate=True, create=True)
    assert path.read_text() == "Dear diary, " * 1000


async def test_a_folder_is_unavailable(tmp_path: Path, clock: Clock, nothing_is_left: None) -> None:
    with pytest.raises(StoreUnavailable):
        await store_on(tmp_path, clock=clock).open(migrate=True, create=True)


async def test_the_file_is_in_wal_mode(store: SqliteStore, connection: sqlite3.Connection) -> None:
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_schema_of_another_name_is_a_prefix_of_every_object(
    path: Path, clock: Clock, connection: sqlite3.Connection
) -> None:
    shop = store_on(path, clock=clock, schema="shop")
    await shop.open(migrate=True, create=True)
    assert "shop_records" in objects(connection)
    assert not [name for name in objects(connection) if not name.startswith(("shop_", "sqlite_autoindex_shop_"))]
    await shop.close()


async def test_schemas_in_one_file_know_nothing_of_each_other(store: SqliteStore, path: Path, clock: Clock) -> None:
    topic = await store.ensure_topic("orders", 4, "json")
    await store.append(publications(topic, 2))
    shop = store_on(path, clock=clock, schema="shop")
    await shop.open(migrate=True, create=True)
    assert await shop.topics() == []
    mine = await shop.ensure_topic("orders", 2, "json")
    assert await shop.append(publications(mine, 1)) == [1]
    await shop.close()
    assert await payloads_of(store, topic) == [b"1", b"2"]


@pytest.mark.parametrize("schema", ["", "Shop", "my-shop", "7", "a b", "x" * 49, "a;b", "é"])
def test_a_schema_that_is_no_plain_identifier_is_refused(schema: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"schema={schema!r}")):
        open_store("sqlite:///streams.db", schema=schema)


def test_a_script_is_split_where_its_statements_end() -> None:
    script = """-- A comment; with a semicolon.
CREATE TABLE a (b TEXT DEFAULT ';'); -- and one behind
CREATE TRIGGER t AFTER INSERT ON a BEGIN
    DELETE FROM a;
    SELECT ';';
END;
INSERT INTO a VALUES (1); INSERT INTO a
VALUES (2);
"""
    statements = list(split(script))
    assert "".join(statements) == script
    assert ["TRIGGER" in statement for statement in statements].count(True) == 1


def test_no_migration_has_a_statement_that_does_not_end() -> None:
    for step in migrations(PACKAGE):
        assert "".join(split(step.sql)).rstrip() == step.sql.rstrip()


def test_migrations_are_numbered_without_gaps() -> None:
    assert [step.number for step in migrations(PACKAGE)] == list(range(1, len(migrations(PACKAGE)) + 1))

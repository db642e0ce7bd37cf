"""The schema that the migrations build is committed beside this test, so that a change of it is seen in review."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from streams.stores.sqlite.schema import script
from streams.stores.sqlite.store import SqliteStore
from tests.conformance.clock import Clock
from tests.stores.sqlite_file import store_on

COMMITTED = Path(__file__).parent / "sqlite_schema.sql"


def dump(connection: sqlite3.Connection) -> str:
    """Every object that has SQL of its own, by name."""
    rows = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
    return "\n".join(f"{sql.strip()};\n" for (sql,) in rows)


async def test_the_migrations_build_the_committed_schema(
    store: SqliteStore, connection: sqlite3.Connection, tmp_path: Path
) -> None:
    built = tmp_path / "built.sql"
    built.write_text(dump(connection), encoding="utf-8")
    meant = f"if the change is meant: cp {built} {COMMITTED}"
    assert COMMITTED.read_text(encoding="utf-8") == built.read_text(encoding="utf-8"), meant


@pytest.mark.parametrize("schema", ["streams", "shop"])
async def test_the_script_of_all_migrations_makes_a_migrated_file(
    path: Path, clock: Clock, connection: sqlite3.Connection, tmp_path: Path, schema: str
) -> None:
    connection.executescript(script(schema))
    by_script = store_on(path, clock=clock, schema=schema)
    await by_script.open(migrate=False, create=False)
    assert await by_script.migrate() == 0
    by_migrations = store_on(tmp_path / "migrated.db", clock=clock, schema=schema)
    await by_migrations.open(migrate=True, create=True)
    with closing(sqlite3.connect(tmp_path / "migrated.db")) as migrated:
        assert dump(connection) == dump(migrated)
        in_micros = f"SELECT min(applied_at BETWEEN 1.6e15 AND 1e16) FROM {schema}_migrations"
        for look, answer in [("PRAGMA journal_mode", "wal"), (in_micros, 1)]:
            assert connection.execute(look).fetchone() == migrated.execute(look).fetchone() == (answer,)
    await by_script.close()
    await by_migrations.close()


async def test_no_foreign_key_makes_a_delete_scan_another_table(
    store: SqliteStore, connection: sqlite3.Connection
) -> None:
    assert "REFERENCES" not in dump(connection).upper()

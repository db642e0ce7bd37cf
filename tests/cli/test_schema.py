"""`streams migrate` and `streams sql`: by us, and by hand."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.processes import Cli, Here


def schema_of(path: Path, schema: str = "streams") -> set[tuple[str, str]]:
    """(name, SQL) of all that is in a file, and the migrations applied to it."""
    with closing(sqlite3.connect(path)) as connection:
        made = connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        applied = connection.execute(f"SELECT number || name, checksum FROM {schema}_migrations").fetchall()
        return {(name, " ".join(sql.replace(" IF NOT EXISTS", "").split())) for name, sql in [*made, *applied]}


def test_migrating_makes_the_database_once(here: Here, tmp_path: Path) -> None:
    made, again = here("migrate"), here("migrate", STREAMS_MIGRATE="never")
    assert made == (0, "", "sqlite:///streams.db: the schema was brought up to date.\n")
    assert again == (0, "", "sqlite:///streams.db: the schema is up to date, there was nothing to do.\n")
    assert {"streams_topics", "streams_records"} <= {name for name, _ in schema_of(tmp_path / "streams.db")}


def test_several_may_migrate_at_once(cli: Cli) -> None:
    started = [cli.start("migrate") for _ in range(4)]
    assert [one.ended().code for one in started] == [0] * 4
    assert cli("topics", "--json").json == []


def test_a_database_of_a_newer_version_is_left_alone(here: Here, tmp_path: Path) -> None:
    here("migrate")
    with closing(sqlite3.connect(tmp_path / "streams.db")) as connection, connection:
        connection.execute("INSERT INTO streams_migrations VALUES (9999, 'later', 'x', 1, 0)")
    for command in ("migrate", "topics"):
        ended = here(command)
        assert ended.code == 1
        assert "upgrade ordered-streams" in ended.err


@pytest.mark.parametrize("schema", ["streams", "mine"])
def test_sql_applied_by_hand_is_what_migrating_makes(here: Here, tmp_path: Path, schema: str) -> None:
    printed = here("sql", "--schema", schema)
    assert (printed.code, printed.err) == (0, "")
    with closing(sqlite3.connect(tmp_path / "hand.db")) as connection:
        connection.executescript(printed.out)
    options = "--schema", schema, "--url"
    assert here("migrate", *options, "sqlite:///hand.db").err.endswith("there was nothing to do.\n")
    assert here("topics", "--json", *options, "sqlite:///hand.db").json == []
    here("migrate", *options, "sqlite:///ours.db")
    assert schema_of(tmp_path / "hand.db", schema) == schema_of(tmp_path / "ours.db", schema)


def test_sql_tells_the_migrations_apart(here: Here) -> None:
    first = here("sql", "--schema", "mine", "--json").json[0]
    assert list(first) == ["number", "name", "checksum", "breaking", "sql"]
    assert (first["number"], first["name"], first["breaking"]) == (1, "path", False)
    assert "CREATE TABLE mine_topics" in first["sql"]


def test_sql_touches_no_database(here: Here, tmp_path: Path) -> None:
    for url in ("sqlite:///streams.db", "sqlite:///:memory:"):
        assert here("sql", "--url", url).code == 0
    assert not list(tmp_path.iterdir())


def test_what_has_no_sql_says_so(here: Here) -> None:
    ended = here("sql", "--url", "memory://")
    assert (ended.code, ended.out) == (1, "")
    assert "has no SQL" in ended.err

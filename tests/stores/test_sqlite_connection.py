"""What SQLite says at a COMMIT decides what the caller may believe: nothing was written, or nobody knows."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from streams.errors import PublishUncertain, StoreBusy, StoreUnavailable
from streams.stores.sqlite.connection import Connection, Transaction

STATEMENTS = {"insert": "INSERT INTO t VALUES (?)", "all": "SELECT x FROM t ORDER BY x"}


class Faulty(sqlite3.Connection):
    """SQLite's own connection, which fails at a COMMIT as it is told: before its effect, or after."""

    code: int | None = None
    commits_first = False

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" and self.code is not None:
            error = sqlite3.OperationalError("injected")
            error.sqlite_errorcode, Faulty.code = self.code, None
            if self.commits_first:
                super().execute(sql)
            raise error
        return super().execute(sql, *args)


@pytest.fixture
async def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Connection]:
    monkeypatch.setattr(Faulty, "code", None)
    monkeypatch.setattr(Faulty, "commits_first", False)

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(
            tmp_path / "t.db", factory=Faulty, timeout=0, isolation_level=None, check_same_thread=False
        )

    connection = Connection(connect, STATEMENTS, busy_seconds=0.1)
    await connection.write(lambda tx: tx.cursor.execute("CREATE TABLE t (x)"))
    yield connection
    await connection.close()


@pytest.fixture
def other(connection: Connection, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another connection to the file, in WAL mode, so that it writes while the first one reads."""
    with closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None, check_same_thread=False)) as other:
        other.execute("PRAGMA journal_mode = wal")
        yield other


async def rows(connection: Connection) -> list[int]:
    return await connection.read(lambda tx: [x for (x,) in tx.run("all")])


async def insert(connection: Connection, value: int) -> None:
    await connection.write(lambda tx: tx.run_many("insert", [(value,)]))


async def test_a_commit_that_fails_for_lack_of_room_has_not_happened(connection: Connection) -> None:
    Faulty.code = sqlite3.SQLITE_FULL
    with pytest.raises(StoreUnavailable, match="nothing was written"):
        await insert(connection, 1)
    assert await rows(connection) == []


async def test_a_commit_that_another_reader_holds_up_is_tried_again(connection: Connection) -> None:
    Faulty.code = sqlite3.SQLITE_BUSY
    await insert(connection, 1)
    assert await rows(connection) == [1]


@pytest.mark.parametrize("commits_first", [True, False])
async def test_a_commit_whose_outcome_nobody_knows_is_uncertain(connection: Connection, commits_first: bool) -> None:
    Faulty.code, Faulty.commits_first = sqlite3.SQLITE_IOERR_FSYNC, commits_first
    with pytest.raises(PublishUncertain, match="may be durable or not"):
        await insert(connection, 1)
    assert await rows(connection) == ([1] if commits_first else [])
    await insert(connection, 2)
    assert (await rows(connection))[-1] == 2


async def test_an_error_of_the_function_undoes_what_it_did(connection: Connection) -> None:
    def fail(tx: Transaction) -> None:
        tx.run("insert", (1,))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await connection.write(fail)
    assert await rows(connection) == []
    await insert(connection, 2)
    assert await rows(connection) == [2]


async def test_a_read_holds_one_snapshot(connection: Connection, other: sqlite3.Connection) -> None:
    def read_twice(tx: Transaction) -> list[list[Any]]:
        first = tx.run("all").fetchall()
        other.execute("INSERT INTO t VALUES (1)")
        return [first, tx.run("all").fetchall()]

    assert await connection.read(read_twice) == [[], []]
    assert await rows(connection) == [1]


async def test_a_lock_that_never_frees_is_busy(connection: Connection, other: sqlite3.Connection) -> None:
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        await insert(connection, 1)
    other.execute("ROLLBACK")
    await insert(connection, 1)
    assert await rows(connection) == [1]

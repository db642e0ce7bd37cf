"""One SQLite connection, and transactions on it: each is one function, run whole in a thread.

A transaction that writes takes the write lock first (`BEGIN IMMEDIATE`): one that upgraded from reading would be
refused at once, whatever the busy timeout. We wait for the lock ourselves, in turns of a quarter of a second, so that
whoever waits can be cancelled; SQLite's own busy handler sleeps up to 100 ms at a time, far longer than our
transactions last.
"""

import random
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import anyio
from anyio import CapacityLimiter, to_thread

from streams.errors import PublishUncertain, StoreBusy, StoreUnavailable

T = TypeVar("T")

TURN_SECONDS = 0.25


class Transaction:
    """A cursor inside an open transaction, and our statements by name."""

    def __init__(self, connection: sqlite3.Connection, statements: dict[str, str]) -> None:
        self.cursor = connection.cursor()
        self.cursor.row_factory = None  # also on a caller's connection that has another
        self._statements = statements

    def run(self, name: str, args: Sequence[object] | Mapping[str, object] = ()) -> sqlite3.Cursor:
        """Execute the statement of this name."""
        return self.cursor.execute(self._statements[name], args)

    def run_many(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        """Execute the statement of this name for each row."""
        self.cursor.executemany(self._statements[name], rows)

    def one(self, name: str, args: Sequence[object] | Mapping[str, object] = ()) -> Any:
        """The first row, or None. The statement is run to its end, as one with RETURNING must be."""
        rows = self.run(name, args).fetchall()
        return rows[0] if rows else None


class Connection:
    """A SQLite connection that is opened when it is first used, and runs one transaction at a time.

    `check` is called in every transaction before it does anything, and raises what is wrong.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        statements: dict[str, str],
        *,
        busy_seconds: float,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._connect = connect
        self._check = check
        self._statements = statements
        self._busy_seconds = busy_seconds
        self._turn = CapacityLimiter(1)
        self._connection: sqlite3.Connection | None = None

    async def read(self, function: Callable[[Transaction], T]) -> T:
        """Run a function on one snapshot."""
        return await self._run("BEGIN", function)

    async def write(self, function: Callable[[Transaction], T]) -> T:
        """Run a function in a transaction that holds the write lock, and commit it.

        Raises:
            StoreBusy: the lock stayed taken for `busy_seconds`.
            StoreUnavailable: SQLite failed; nothing was written.
            PublishUncertain: SQLite failed in the commit itself.
        """
        return await self._run("BEGIN IMMEDIATE", function)

    async def close(self) -> None:
        """Close; whatever runs ends first."""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _run(self, begin: str, function: Callable[[Transaction], T]) -> T:
        deadline = time.monotonic() + self._busy_seconds
        while True:
            turn_ends = min(time.monotonic() + TURN_SECONDS, deadline)
            try:
                return await to_thread.run_sync(self._attempt, begin, function, turn_ends, limiter=self._turn)
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise StoreUnavailable(f"SQLite: {error}; nothing was written") from error
                if time.monotonic() >= deadline:
                    raise StoreBusy(
                        f"SQLite's write lock was taken for {self._busy_seconds:g} s by another process; "
                        f"nothing was written. Is a transaction left open? (?busy_seconds= sets the wait)"
                    ) from error
            await anyio.lowlevel.checkpoint()

    def _attempt(self, begin: str, function: Callable[[Transaction], T], turn_ends: float) -> T:
        """Begin as soon as the lock is free, call, commit; undo everything when that fails."""
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        while True:
            try:
                connection.execute(begin)
                break
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() >= turn_ends:
                    raise
                time.sleep(random.uniform(0.0005, 0.004))
        try:
            self._check()
            result = function(Transaction(connection, self._statements))
        except BaseException:
            _rollback(connection)
            raise
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            _rollback(connection)
            if begin == "BEGIN" or error.sqlite_errorcode & 0xFF in (
                sqlite3.SQLITE_FULL,
                sqlite3.SQLITE_BUSY,
            ):
                raise
            raise PublishUncertain(f"SQLite failed in a commit: {error}; it may be durable or not") from error
        return result


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds a lock that this one needs."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _rollback(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")

"""The SQLite store: several processes on one file.

Three connections: a writer, a reader (in WAL mode neither waits for the other), and one that only looks at
`PRAGMA data_version`, which tells within microseconds whether another connection has written.
"""

import os
import sqlite3
import time
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import CapacityLimiter, from_thread, to_thread

from partition import Beat, Lease
from streams.errors import InvalidConnection, MigrationNeeded, SettingsError, StoreUnavailable
from streams.stores.rows import (
    EVERY_LETTER,
    Cursor,
    DeadFilter,
    DeadLetter,
    Fetched,
    GroupStatus,
    Held,
    MemberRow,
    ParkedKey,
    Publication,
    Settlement,
    TopicRow,
    TopicStatus,
    Verdict,
    View,
)
from streams.stores.sqlite import coordination, log, settlement
from streams.stores.sqlite import schema as schemas
from streams.stores.sqlite.connection import Connection, Transaction, is_busy
from streams.stores.sqlite.filesystem import network_filesystem
from streams.stores.sqlite.url import SqliteUrl, connect
from streams.stores.statements import Migration, statements

T = TypeVar("T")

OLDEST = (3, 37, 0)  # STRICT tables
FIRST_LOOK_SECONDS = 0.002
LAST_LOOK_SECONDS = 0.012


def wall_micros() -> int:
    """Microseconds since the epoch. SQLite has no clock of its own: this machine's serves all processes on the file."""
    return time.time_ns() // 1000


class SqliteStore:
    """A store on one SQLite file. See `Store` for what each verb promises."""

    withholds = False  # There is one writer.

    def __init__(self, url: SqliteUrl, *, schema: str = "streams", clock: Callable[[], int] = wall_micros) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise SettingsError(f"SQLite {sqlite3.sqlite_version} is too old; 3.37 or newer is needed")
        self._url = url
        self.poll_seconds = 1.0 if url.listen else 0.25
        self._schema = schema
        self._clock = clock
        self._create = False
        self._opened = False
        self._path = url.path
        self._file: tuple[int, int] | None = None  # the one that was opened, by device and inode
        self._siblings_file: tuple[int, int] | None = None  # the one that it has to be, if it is a sibling's
        self._group_ids: dict[tuple[str, str], int] = {}
        self._statements = statements(schemas.PACKAGE, schema)
        self._writer = self._connection(url.busy_seconds)
        self._reader = self._connection(url.busy_seconds)
        self._bell: sqlite3.Connection | None = None
        self._heard = -1
        self._look_seconds = FIRST_LOOK_SECONDS
        self._listener = CapacityLimiter(1)
        if url.memory:
            # An in-memory file ends with its last connection. This one lasts as long as the store, also a closed one.
            weakref.finalize(self, connect(url, create=True).close)

    def _connection(self, busy_seconds: float) -> Connection:
        return Connection(self._connect, self._statements, busy_seconds=busy_seconds, check=self._look_at_file)

    def _connect(self) -> sqlite3.Connection:
        if not self._opened:  # A verb that waited while the store was closed would leave a connection behind.
            raise StoreUnavailable(f"{self._url.path}: the store is not open; nothing was written")
        self._look_at_file()
        connection = connect(self._url._replace(path=self._path), create=self._create)
        try:
            connection.execute(f"PRAGMA synchronous = {self._url.synchronous}")
        except BaseException:
            connection.close()
            raise
        return connection

    async def open(self, *, migrate: bool, create: bool) -> None:
        self._create = create and migrate  # SQLite makes an empty file where it finds none.
        self._look_at_path()
        self._opened = True
        try:
            await self._look_at_schema(migrate)
            self._file = self._file_at_path()
        except BaseException:
            await self.close()
            raise

    async def _look_at_schema(self, migrate: bool) -> None:
        if migrate:
            await self._enter_wal_mode()
        if steps := await self._missing():
            if not migrate:
                names = ", ".join(f"{step.number:04}_{step.name}" for step in steps)
                raise MigrationNeeded(f"{self._url.path}: the schema lacks {names}; run `streams migrate`")
            await self.migrate()

    async def migrate(self) -> int:
        """Bring the schema up to date; how many migrations were applied."""
        return await self._writer.write(lambda tx: schemas.apply(tx, self._schema, self._clock()))

    async def close(self) -> None:
        self._opened = False
        with anyio.CancelScope(shield=True):
            await self._writer.close()
            await self._reader.close()
            async with self._listener:
                if self._bell is not None:
                    self._bell.close()
                    self._bell = None
        self._file = None  # Opened again, it goes by what is there then.
        self._group_ids.clear()

    def sibling(self, *, bound_seconds: float | None = None) -> "SqliteStore":
        url = self._url._replace(path=self._path)
        if bound_seconds is not None:
            url = url._replace(busy_seconds=bound_seconds, synchronous="normal")
        sibling = SqliteStore(url, schema=self._schema, clock=self._clock)
        sibling._siblings_file = self._file or self._siblings_file
        return sibling

    def _look_at_path(self) -> None:
        if self._url.memory:
            return
        self._path = os.path.abspath(self._url.path)  # The program may go to another folder later.
        path = Path(self._url.path)
        if not self._create and not path.exists():
            raise MigrationNeeded(f"{path} does not exist; run `streams migrate`, or start the program that publishes")
        if not path.parent.is_dir():
            raise StoreUnavailable(f"{path}: the folder {path.parent} does not exist")
        if kind := network_filesystem(path.resolve().parent):
            raise SettingsError(
                f"{path} is on a network file system ({kind}), where SQLite's locks do not hold; "
                f"use a local disk, or PostgreSQL for several machines"
            )

    def _file_at_path(self) -> tuple[int, int] | None:
        """Which file the path names now: device and inode."""
        if self._url.memory:
            return None
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _look_at_file(self) -> None:
        """A file that was removed can be written to for ever, and nobody would ever find what is in it."""
        opened = self._file or self._siblings_file
        if opened is not None and self._file_at_path() != opened:
            raise StoreUnavailable(
                f"{self._url.path} was removed or replaced while it was open; nothing was written. "
                f"Put it back, or restart this process to go on with what is there now"
            )

    async def _enter_wal_mode(self) -> None:
        """Outside a transaction, as SQLite wants it; another process may hold the lock for the same reason."""
        deadline = anyio.current_time() + max(1.0, self._url.busy_seconds)
        while True:
            try:
                connection = self._connect()
                try:
                    connection.execute("PRAGMA journal_mode = wal")
                    return
                finally:
                    connection.close()
            except sqlite3.Error as error:
                if not is_busy(error) or anyio.current_time() > deadline:
                    raise StoreUnavailable(f"{self._url.path}: {error}") from error
            await anyio.sleep(0.01)

    async def _missing(self) -> list[Migration]:
        return await self._reader.read(lambda tx: schemas.missing(tx, self._schema))

    # Log

    def within(self, connection: object) -> "SqliteAppender":
        if not isinstance(connection, sqlite3.Connection):
            raise InvalidConnection(
                f"connection= must be a sqlite3.Connection for a sqlite:// app, not {type(connection).__name__}"
            )
        try:
            path = _path_of(connection)
        except sqlite3.ProgrammingError as error:  # It is closed, or another thread's.
            raise InvalidConnection(f"connection= cannot be used: {error}") from error
        if not connection.in_transaction:
            raise InvalidConnection("connection= has no transaction open; begin one, publish, then commit")
        if not self._is_on(path):
            raise InvalidConnection(
                f"connection= is open on {path or 'another database'!r}, the app on {self._url.path!r}"
            )
        return SqliteAppender(Transaction(connection, self._statements), self._clock)

    def _is_on(self, path: str) -> bool:
        if self._url.memory or not path:
            return False
        try:
            return os.path.samefile(path, self._path)
        except OSError:  # One of them is gone.
            return False

    async def topic(self, name: str) -> TopicRow | None:
        return await self._reader.read(lambda tx: log.topic(tx, name))

    async def ensure_topic(self, name: str, partitions: int, codec: str) -> TopicRow:
        if found := await self.topic(name):
            return found
        return await self._writer.write(lambda tx: log.ensure_topic(tx, name, partitions, codec, self._clock()))

    async def append(self, publications: Sequence[Publication]) -> list[int]:
        return await self._writer.write(lambda tx: log.append(tx, publications, self._clock()))

    async def try_append(self, publications: Sequence[Publication]) -> list[int | None]:
        return list(await self.append(publications))

    async def fetch(self, cursors: Sequence[Cursor]) -> list[Fetched]:
        return await self._reader.read(lambda tx: log.fetch(tx, cursors))

    async def rung(self, timeout_seconds: float) -> None:
        if not self._url.listen:
            await anyio.sleep(timeout_seconds)
            return
        self._heard = await to_thread.run_sync(self._listen, timeout_seconds, limiter=self._listener)

    def _listen(self, timeout_seconds: float) -> int:
        """Look until there is news; runs in a thread, where a sleep costs half of what it does in the event loop."""
        deadline = time.monotonic() + timeout_seconds
        while (seen := self._data_version()) == self._heard:
            rest = deadline - time.monotonic()
            if rest <= 0 or not self._opened:
                return seen
            from_thread.check_cancelled()
            time.sleep(min(self._look_seconds, rest))
            self._look_seconds = min(self._look_seconds * 1.2, LAST_LOOK_SECONDS)
        self._look_seconds = FIRST_LOOK_SECONDS
        return seen

    def _data_version(self) -> int:
        try:
            if self._bell is None:
                self._bell = self._connect()
            return int(self._bell.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error as error:
            if is_busy(error):
                return self._heard
            raise StoreUnavailable(f"SQLite: {error}") from error

    async def topics(self) -> list[TopicStatus]:
        return await self._reader.read(log.topics)

    # Coordination

    async def ensure_group(self, group: str, topic: str, start: str) -> None:
        if await self._reader.read(lambda tx: tx.one("group_id", (group, topic))):
            return
        await self._writer.write(lambda tx: coordination.ensure_group(tx, group, topic, start, self._clock()))

    async def register(self, member: MemberRow, *, replaces: str | None = None) -> None:
        await self._writer.write(lambda tx: coordination.register(tx, member, replaces, self._clock()))

    async def beat(self, member: str, *, turned: bool, stopping: bool) -> bool:
        return await self._writer.write(lambda tx: coordination.beat(tx, member, turned, stopping, self._clock()))

    async def leave(self, member: str) -> None:
        await self._writer.write(lambda tx: coordination.leave(tx, member))

    async def generation(self) -> int:
        return int((await self._reader.read(lambda tx: tx.one("generation")))[0])

    async def view(self, pairs: Sequence[tuple[str, str]]) -> View:
        return await self._reader.read(lambda tx: coordination.view(tx, pairs, self._clock()))

    async def acquire(
        self, member: str, wanted: Sequence[tuple[str, str, int]], *, dead: Sequence[Beat] = ()
    ) -> list[Held]:
        return await self._writer.write(lambda tx: coordination.acquire(tx, member, wanted, dead, self._clock()))

    async def release(self, leases: Sequence[Lease]) -> None:
        await self._writer.write(lambda tx: coordination.release(tx, leases))

    async def members(self) -> list[MemberRow]:
        now = self._clock()
        return [row for row in await self._reader.read(coordination.members) if row.alive_until > now]

    # Settlement

    async def commit(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        return await self._writer.write(lambda tx: self._settle(tx, settlements))

    def _settle(self, tx: Transaction, settlements: Sequence[Settlement]) -> list[Verdict]:
        now, ids = self._clock(), self._group_ids
        applied = []
        for one in settlements:
            pair = one.lease.group, one.lease.topic
            found = ids.get(pair) or coordination.find_group(tx, *pair)
            if found is not None:
                ids[pair] = found
            applied.append(Verdict(found is not None and settlement.settle(tx, found, one, now)))
        return applied

    async def groups(self) -> list[GroupStatus]:
        return await self._reader.read(lambda tx: settlement.groups(tx, self._clock()))

    async def parked(self) -> list[ParkedKey]:
        return await self._reader.read(settlement.parked_everywhere)

    async def dead(self, which: DeadFilter = EVERY_LETTER) -> list[DeadLetter]:
        return await self._reader.read(lambda tx: settlement.dead(tx, which))

    async def remove_dead(self, which: DeadFilter) -> int:
        return await self._writer.write(lambda tx: settlement.remove_dead(tx, which))


class SqliteAppender:
    """Publishing in the caller's own transaction, on the caller's thread; SQLite's errors pass unchanged.

    A verb that fails undoes what it did itself, so that a caller who goes on and commits does not commit half of it.
    """

    def __init__(self, tx: Transaction, clock: Callable[[], int]) -> None:
        self._tx = tx
        self._clock = clock

    async def topic(self, name: str) -> TopicRow | None:
        return log.topic(self._tx, name)

    async def ensure_topic(self, name: str, partitions: int, codec: str) -> TopicRow:
        async with self.whole():
            return log.ensure_topic(self._tx, name, partitions, codec, self._clock())

    async def append(self, publications: Sequence[Publication]) -> list[int]:
        async with self.whole():
            return log.append(self._tx, publications, self._clock())

    @asynccontextmanager
    async def whole(self) -> AsyncIterator[None]:
        cursor = self._tx.cursor
        cursor.execute("SAVEPOINT streams_verb")
        try:
            yield
        except BaseException:
            if cursor.connection.in_transaction:  # Some errors make SQLite undo the whole transaction by itself.
                cursor.execute("ROLLBACK TO streams_verb")
                cursor.execute("RELEASE streams_verb")
            raise
        cursor.execute("RELEASE streams_verb")


def _path_of(connection: sqlite3.Connection) -> str:
    """The file of a connection's main database; empty when it has none."""
    cursor = connection.cursor()
    cursor.row_factory = None
    # A blob passes by the caller's text_factory.
    (path,) = cursor.execute("SELECT CAST(file AS BLOB) FROM pragma_database_list WHERE name = 'main'").fetchone()
    return os.fsdecode(path or b"")

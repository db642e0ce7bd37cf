"""Publishing in the caller's own transaction, on a connection of asyncpg's to the app's own database."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from weakref import WeakSet

import asyncpg

from streams.errors import InvalidConnection
from streams.stores.postgres import log
from streams.stores.postgres.session import Session
from streams.stores.rows import Publication, TopicRow


class Home:
    """The app's own database, and which connections lead there."""

    def __init__(self, session: Session, place: str) -> None:
        self._session = session
        self._place = place
        self._identity: tuple[object, ...] | None = None
        self._known: WeakSet[asyncpg.Connection] = WeakSet()

    async def check(self, connection: asyncpg.Connection, sql: str) -> None:
        """Refuse a connection to another database. A connection is asked once.

        The server's start is part of the answer, so a difference may mean that it was restarted since we asked.
        """
        itself = getattr(connection, "_con", connection)  # A pool hands out a new proxy each time.
        if itself in self._known:
            return
        there = tuple(await connection.fetchrow(sql))
        if there != self._identity:
            ((*here,),) = await self._session.read("identity")
            self._identity = tuple(here)
        if there != self._identity:
            raise InvalidConnection(
                f"connection= leads to another database than the app's, which is {self._place}; the record can only "
                f"be part of a transaction there"
            )
        self._known.add(itself)


def in_transaction(connection: object) -> asyncpg.Connection:
    """The connection, if it is one that has a transaction open.

    Raises:
        InvalidConnection: it is not.
    """
    if not isinstance(connection, asyncpg.Connection | asyncpg.pool.PoolConnectionProxy):
        raise InvalidConnection(
            f"connection= must be an asyncpg.Connection for a postgresql:// app, not {type(connection).__name__}"
        )
    try:
        closed, begun = connection.is_closed(), connection.is_in_transaction()
    except asyncpg.InterfaceError as error:
        raise InvalidConnection("connection= has been released to its pool") from error
    if closed:
        raise InvalidConnection("connection= is closed")
    if not begun:
        raise InvalidConnection("connection= has no transaction open; begin one, publish, then commit")
    return connection


class PostgresAppender:
    """The log's verbs in a transaction that is open; the driver's errors pass unchanged."""

    def __init__(
        self,
        connection: asyncpg.Connection,
        home: Home,
        statements: Mapping[str, str],
        clock: Callable[[], int | None],
    ) -> None:
        self._connection = connection
        self._home = home
        self._statements = statements
        self._clock = clock

    async def topic(self, name: str) -> TopicRow | None:
        await self._check()
        row = await self._connection.fetchrow(self._statements["topic"], name)
        return None if row is None else TopicRow(row[0], name, row[1], row[2])

    async def ensure_topic(self, name: str, partitions: int, codec: str) -> TopicRow:
        if found := await self.topic(name):
            return found
        now = self._clock()
        await self._connection.fetch(self._statements["ensure_topic"], name, partitions, codec, now)
        found = await self.topic(name)
        assert found is not None
        return found

    async def append(self, publications: Sequence[Publication]) -> list[int]:
        arguments = (*log.columns(publications), True, self._clock())
        await self._check()
        offsets = await self._connection.fetchval(self._statements["append_within"], *arguments)
        return list(offsets or [])

    @asynccontextmanager
    async def whole(self) -> AsyncIterator[None]:
        await self._check()
        async with self._connection.transaction():
            yield

    async def _check(self) -> None:
        await self._home.check(self._connection, self._statements["identity"])

"""One connection to PostgreSQL: opened when it is first used, one statement at a time, replaced when in doubt.

Each statement is a transaction of its own, so a process that stands still holds no lock. Nothing is set for the
session and nothing asked for at its start, since behind a pooler the next statement may run in another one.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import asyncpg

from streams.errors import (
    MigrationNeeded,
    PublishUncertain,
    SettingsError,
    StoreBusy,
    StoreUnavailable,
    UnknownTopic,
)
from streams.stores.postgres.url import PostgresUrl

T = TypeVar("T")

OLDEST = 140_000
CLOSE_SECONDS = 2.0
WAITING_SECONDS = 40.0
"""A little longer than such a statement is given by `begin_waiting`, to which it answers."""

_BUSY = {"55P03", "40P01", "40001"}
"""Lock timeout, deadlock, serialization failure: nothing happened, try again."""
_WRONG = {"28000", "28P01"}
_MISSING = {"3F000", "42P01", "42883", "42703"}
_FORBIDDEN = {"42501"}

_ABOUT = """
SELECT current_setting('server_version_num')::integer, current_setting('server_encoding'),
    current_setting('default_transaction_isolation')
"""


class LeasePassedOn(Exception):
    """A lease was taken away while a settlement ran; nothing of it happened."""


class LockTableFull(StoreBusy):
    """The server has no room for the locks that a statement takes; nothing of it happened."""


class Session:
    """A connection that is shared by those who call the same verbs, one after another, in the order of their calls."""

    def __init__(self, url: PostgresUrl, statements: Mapping[str, str], *, bound_seconds: float) -> None:
        self._url = url
        self._statements = statements
        self._bound_seconds = bound_seconds
        self._turn = anyio.Lock()
        self._connection: asyncpg.Connection | None = None

    async def read(self, name: str, *args: object) -> list[Any]:
        """The rows of a statement that changes nothing."""
        return await self._run(name, args, writes=False)

    async def write(self, name: str, *args: object) -> list[Any]:
        """The rows of a statement that is a transaction.

        Raises:
            StoreBusy: somebody else holds what it needs; nothing was written.
            StoreUnavailable: the server refused it, or could not be reached; nothing was written.
            PublishUncertain: the answer was lost.
        """
        return await self._run(name, args, writes=True)

    async def close(self) -> None:
        """Close, within bounds."""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                await self._drop(gently=True)

    async def _run(self, name: str, args: tuple[object, ...], *, writes: bool) -> list[Any]:
        sql = self._statements[name]
        return await self.use(
            lambda connection: connection.fetch(sql, *args, timeout=self._bound_seconds), writes=writes
        )

    async def write_waiting(self, name: str, *args: object) -> list[Any]:
        """Like `write`, for a statement that waits until others have ended their transactions, at most 30 s."""
        sql = self._statements[name]

        async def run(connection: asyncpg.Connection) -> list[Any]:
            await connection.execute(self._statements["begin_waiting"], timeout=self._bound_seconds)
            try:
                rows: list[Any] = await connection.fetch(sql, *args, timeout=WAITING_SECONDS)
            except asyncpg.PostgresError:
                if not connection.is_closed():
                    await connection.execute("ROLLBACK", timeout=self._bound_seconds)
                raise
            await connection.execute("COMMIT", timeout=self._bound_seconds)
            return rows

        return await self.use(run, writes=True)

    async def use(self, function: Callable[[asyncpg.Connection], Awaitable[T]], *, writes: bool) -> T:
        """What a function makes of the connection; errors as for the other methods."""
        async with self._turn:
            if self._connection is None or self._connection.is_closed():
                self._connection = await connect(self._url, seconds=self._bound_seconds)
            try:
                return await function(self._connection)
            except asyncpg.PostgresError as error:
                if self._connection.is_closed() or (error.sqlstate or "")[:2] in ("08", "57"):
                    await self._drop()
                    raise self._lost(error, writes) from error
                raise refusal(error) from error
            except (OSError, TimeoutError, asyncpg.InterfaceError) as error:
                await self._drop()
                raise self._lost(error, writes) from error
            except BaseException:
                await self._drop()
                raise

    def _lost(self, error: Exception, writes: bool) -> Exception:
        said = f"PostgreSQL at {self._url.place}: {error or type(error).__name__}"
        if writes:
            return PublishUncertain(f"{said}; what was sent may be durable or not")
        return StoreUnavailable(said)

    async def _drop(self, *, gently: bool = False) -> None:
        """Give the connection up. The driver's own close may wait for ever."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if gently and not connection.is_closed():
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    await connection.close(timeout=CLOSE_SECONDS / 2)
        connection.terminate()


async def connect(url: PostgresUrl, *, seconds: float) -> asyncpg.Connection:
    """A connection to a server that we can work with.

    Raises:
        StoreUnavailable: it cannot be reached.
        SettingsError: its settings, its version or our password are wrong.
    """
    if not _on_asyncio():
        raise SettingsError("PostgreSQL needs asyncio: its driver knows no other event loop")
    cache = 100 if url.statement_cache else 0
    connection = None
    try:
        with anyio.fail_after(seconds):
            connection = await asyncpg.connect(url.dsn, statement_cache_size=cache, timeout=seconds)
            version, encoding, isolation = await connection.fetchrow(_ABOUT)
    except asyncpg.PostgresError as error:
        if error.sqlstate in _WRONG:
            raise SettingsError(f"PostgreSQL at {url.place}: {error}") from error
        raise StoreUnavailable(f"PostgreSQL at {url.place}: {error}") from error
    except (OSError, TimeoutError, asyncpg.InterfaceError, ssl.SSLError) as error:
        raise StoreUnavailable(f"PostgreSQL at {url.place}: {error or type(error).__name__}") from error
    except (ValueError, asyncpg.InternalClientError) as error:
        raise SettingsError(f"PostgreSQL at {url.place}: {error}") from error
    try:
        _judge(url, version, encoding, isolation)
    except BaseException:
        connection.terminate()
        raise
    return connection


def _on_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _judge(url: PostgresUrl, version: int, encoding: str, isolation: str) -> None:
    if version < OLDEST:
        raise SettingsError(f"PostgreSQL at {url.place} is version {version // 10_000}; 14 or newer is needed")
    if encoding != "UTF8":
        raise SettingsError(f"the database {url.place} has the encoding {encoding}; make one with ENCODING 'UTF8'")
    if isolation != "read committed":
        raise SettingsError(
            f"PostgreSQL at {url.place} has default_transaction_isolation = {isolation!r}; "
            f"ALTER ROLE … SET default_transaction_isolation = 'read committed' repairs it"
        )


def refusal(error: asyncpg.PostgresError) -> Exception:
    """What the server's answer means; nothing was written."""
    state = error.sqlstate
    if state == "ST001":
        return LeasePassedOn(str(error))
    if state == "P0002":
        return UnknownTopic("", f"{error}; was the topic deleted? Nothing was written")
    if state == "53200":
        return LockTableFull(f"PostgreSQL: {error}; nothing was written")
    if state in _BUSY:
        return StoreBusy(f"PostgreSQL: {error}; nothing was written")
    if state in _MISSING:
        return MigrationNeeded(f"PostgreSQL: {error}; run `streams migrate`")
    if state in _FORBIDDEN:
        return StoreUnavailable(f"PostgreSQL: {error}; grant it, or run `streams migrate` under a role that may")
    return StoreUnavailable(f"PostgreSQL: {error}; nothing was written")

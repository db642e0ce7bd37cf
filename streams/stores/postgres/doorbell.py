"""Waking up when somebody has published, without a NOTIFY per publish.

NOTIFY takes a lock that all committing notifiers of a server share, and caps a busy one at hundreds of commits a
second. So a worker that has little to do *lies down*: it says so in a row, for its own partitions, and publishers ring
for those rows only. Under load nobody lies down, and nobody rings.

Whoever was publishing when the row appeared may not have seen it. Publishers look at the rows only after they have
taken their slots, so those who may have missed it hold slots now: until they have ended, the worker looks at the log by
itself, soon and then more rarely. A ring is a hint; polling is the truth.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import anyio
import asyncpg

from streams.errors import StoreUnavailable
from streams.stores.postgres.session import Session, connect
from streams.stores.postgres.url import PostgresUrl
from streams.stores.rows import Cursor

BUSY_SECONDS = 0.1
BUSY_RECORDS = 10
"""Who gets so many records in so much time has something to do, and stays up."""
LIE_DOWN_SECONDS = 1.0
"""At most so often is it said that a worker lies down."""
FIRST_LOOK_SECONDS = 0.004
LAST_LOOK_SECONDS = 0.25
EAR_SECONDS = 10.0
"""So often is it asked whether the connection still listens."""

Places = Mapping[int, frozenset[int]]
"""Partitions by their topic's id."""


class Doorbell:
    """Of one store. `reading` is the session that fetches."""

    def __init__(
        self,
        url: PostgresUrl,
        reading: Session,
        *,
        bound_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._reading = reading
        self._bound_seconds = bound_seconds
        self._clock = clock
        self._member: str | None = None
        self._places: Places = {}
        self._found: deque[float] = deque(maxlen=BUSY_RECORDS)
        self._ear: asyncpg.Connection | None = None
        self._ear_tested_at = 0.0
        self._rung = anyio.Event()
        self._down: Places | None = None  # what we lie on, as far as publishers know
        self._down_at = float("-inf")
        self._missed: set[str] | None = None  # who may have missed that; None: not asked yet
        self._look_seconds = FIRST_LOOK_SECONDS

    def serve(self, member: str) -> None:
        """Under which name to lie down."""
        self._member, self._down = member, None

    def fetched(self, cursors: Sequence[Cursor], records: int) -> None:
        """What is read, and how much came of it."""
        places: dict[int, set[int]] = defaultdict(set)
        for cursor in cursors:
            places[cursor.topic_id].add(cursor.partition)
        self._places = {topic_id: frozenset(partitions) for topic_id, partitions in places.items()}
        if records:
            self._look_seconds = FIRST_LOOK_SECONDS
            self._found.extend([self._clock()] * min(records, BUSY_RECORDS))

    async def wait(self, timeout_seconds: float) -> None:
        """Return when somebody has rung, or when it is time to look."""
        if not self._url.listen:
            await anyio.sleep(timeout_seconds)
            return
        await self._listen()
        if await self._lie_down_or_get_up():
            return
        settled = self._down is not None and self._down == self._places and not self._missed
        if not settled:
            timeout_seconds = min(timeout_seconds, self._look_seconds)
            self._look_seconds = min(self._look_seconds * 1.5, LAST_LOOK_SECONDS)
        with anyio.move_on_after(timeout_seconds):
            await self._rung.wait()
        if self._rung.is_set():
            self._rung = anyio.Event()

    async def close(self) -> None:
        """Stop listening, within bounds."""
        ear, self._ear = self._ear, None
        self._member = self._down = None
        if ear is not None:
            with anyio.move_on_after(1.0, shield=True), suppress(OSError, TimeoutError, asyncpg.PostgresError):
                await ear.close(timeout=0.5)
            ear.terminate()

    @property
    def _busy(self) -> bool:
        return len(self._found) == BUSY_RECORDS and self._clock() - self._found[0] < BUSY_SECONDS

    async def _lie_down_or_get_up(self) -> bool:
        """Say what we do; whether the log is to be looked at now."""
        now = self._clock()
        if self._member is None:
            return False
        if self._busy:
            if self._down is not None:
                await self._reading.write("get_up", self._member)
                self._down = None
            return False
        if self._down != self._places:
            if now - self._down_at < LIE_DOWN_SECONDS:
                return False
            self._down_at = now
            places = dict(self._places)
            await self._reading.write("lie_down", self._member, list(places), [_multirange(p) for p in places.values()])
            self._down, self._missed, self._look_seconds = places, None, FIRST_LOOK_SECONDS
            return True
        if self._missed is None or self._missed:
            holding = {
                holder
                for topic_id, partition, holder, _ in await self._reading.read("holders")
                if partition in self._places.get(topic_id, ())
            }
            self._missed = holding if self._missed is None else self._missed & holding
            return not self._missed
        return False

    async def _listen(self) -> None:
        """Have a connection that listens; one that went deaf is replaced."""
        now = self._clock()
        if self._ear is not None and not self._ear.is_closed():
            if now - self._ear_tested_at < EAR_SECONDS:
                return
            self._ear_tested_at = now
            with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                rows = await self._ear.fetch("SELECT pg_listening_channels()", timeout=self._bound_seconds)
                if rows:
                    return
        if self._ear is not None:
            self._ear.terminate()
            self._ear = None
        self._down = None  # What was rung meanwhile was not heard, and the server may have forgotten the row.
        ear = await connect(self._url, seconds=self._bound_seconds)
        try:
            channel = (await self._reading.read("channel"))[0][0]
            await ear.add_listener(channel, self._hear)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            ear.terminate()
            raise StoreUnavailable(f"PostgreSQL at {self._url.place} cannot LISTEN: {error}") from error
        except BaseException:
            ear.terminate()
            raise
        ear.add_termination_listener(lambda _: self._rung.set())
        self._ear, self._ear_tested_at = ear, now

    def _hear(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        """A topic's id, or nothing when who may hold what has changed."""
        if not payload or int(payload) in self._places:
            self._rung.set()


def _multirange(partitions: frozenset[int]) -> str:
    return "{" + ",".join(f"[{partition},{partition}]" for partition in sorted(partitions)) + "}"

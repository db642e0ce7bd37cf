"""The PostgreSQL store: many processes on many machines.

Each verb is one statement, most of them a call of a function in our schema, and so one transaction and one trip. Verbs
of a kind share a connection and keep their order; the heart's store has one of its own, on its own event loop.
"""

from collections.abc import Callable, Sequence

import anyio
import msgspec

from partition import Beat, Lease
from streams.errors import MigrationNeeded, StoreBusy, StoreUnavailable, StreamsError
from streams.stores.postgres import coordination, log, settlement
from streams.stores.postgres import schema as schemas
from streams.stores.postgres.appender import Home, PostgresAppender, in_transaction
from streams.stores.postgres.doorbell import Doorbell
from streams.stores.postgres.reading import Reader
from streams.stores.postgres.session import LeasePassedOn, LockTableFull, Session
from streams.stores.postgres.url import PostgresUrl
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
from streams.stores.statements import statements

COMMAND_SECONDS = 10.0
DEFINING_SECONDS = 60.0
"""Making a topic of thousands of partitions, or a schema, takes its time."""
WRITE_RECORDS = 1_024
"""A publish takes a lock for each slot, and the server has room for some thousands in all."""
WRITE_BYTES = 16 << 20
"""A statement holds all that it writes, more than once; and it cannot have more than a gigabyte."""
SETTLE_TRIES = 10


def no_clock() -> None:
    """The database's own clock is what counts."""


class PostgresStore:
    """A store on one PostgreSQL database. See `Store` for what each verb promises."""

    withholds = True

    def __init__(
        self,
        url: PostgresUrl,
        *,
        schema: str = "streams",
        clock: Callable[[], int | None] = no_clock,
        bound_seconds: float = COMMAND_SECONDS,
    ) -> None:
        self._url = url
        self._schema = schema
        self._clock = clock
        self._bound_seconds = bound_seconds
        self.poll_seconds = 1.0 if url.listen else 0.25
        self._statements = statements(schemas.PACKAGE, schema)
        self._publishing = self._session(bound_seconds)
        self._waiting = self._session(bound_seconds)
        self._reading = self._session(bound_seconds)
        self._settling = self._session(bound_seconds)
        self._coordinating = self._session(bound_seconds)
        self._defining = self._session(max(bound_seconds, DEFINING_SECONDS))
        self._sessions = [
            self._publishing,
            self._waiting,
            self._reading,
            self._settling,
            self._coordinating,
            self._defining,
        ]
        self._reader = Reader(self._reading)
        self._home = Home(self._publishing, url.place)
        self._doorbell = Doorbell(url, self._reading, bound_seconds=bound_seconds)
        self._group_ids: coordination.GroupIds = {}

    def _session(self, bound_seconds: float) -> Session:
        return Session(self._url, self._statements, bound_seconds=bound_seconds)

    async def open(self, *, migrate: bool, create: bool) -> None:
        try:
            steps = await self._coordinating.use(lambda c: schemas.missing(c, self._schema), writes=False)
            if steps:
                if not migrate:
                    names = ", ".join(f"{step.number:04}_{step.name}" for step in steps)
                    raise MigrationNeeded(f"{self._url.place}: the schema lacks {names}; run `streams migrate`")
                await self.migrate()
        except BaseException:
            await self.close()
            raise

    async def migrate(self) -> int:
        """Bring the schema up to date; how many migrations were applied."""
        return await self._defining.use(lambda c: schemas.apply(c, self._schema), writes=True)

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._doorbell.close()
            for session in self._sessions:
                await session.close()
        self._group_ids.clear()

    def sibling(self, *, bound_seconds: float | None = None) -> "PostgresStore":
        bound = self._bound_seconds if bound_seconds is None else bound_seconds
        return PostgresStore(self._url, schema=self._schema, clock=self._clock, bound_seconds=bound)

    # Log

    def within(self, connection: object) -> PostgresAppender:
        return PostgresAppender(in_transaction(connection), self._home, self._statements, self._clock)

    async def topic(self, name: str) -> TopicRow | None:
        return await log.topic(self._publishing, name)

    async def ensure_topic(self, name: str, partitions: int, codec: str) -> TopicRow:
        if found := await self.topic(name):
            return found
        await self._defining.write("ensure_topic", name, partitions, codec, self._clock())
        found = await self.topic(name)
        if found is None:
            raise StoreUnavailable(f"topic {name!r} was deleted while it was made")
        return found

    async def append(self, publications: Sequence[Publication]) -> list[int]:
        arguments = *log.columns(publications), True, self._clock()
        ((offsets,),) = await self._waiting.write_waiting("append_within", *arguments)
        return list(offsets or [])

    async def try_append(self, publications: Sequence[Publication]) -> list[int | None]:
        """The first of them, as many as the server's lock table has room for."""
        now, some = publications[: _fitting(publications)], len(publications)
        while True:
            try:
                ((offsets,),) = await self._publishing.write("try_append", *log.columns(now), self._clock())
            except LockTableFull:
                if len(now) == 1:
                    raise
                now = now[: len(now) // 2]
            else:
                return [*(offsets or []), *[None] * (some - len(now))]

    async def fetch(self, cursors: Sequence[Cursor]) -> list[Fetched]:
        fetched = await self._reader.fetch(cursors)
        self._doorbell.fetched(cursors, sum(len(one.records) for one in fetched))
        return fetched

    async def rung(self, timeout_seconds: float) -> None:
        await self._doorbell.wait(timeout_seconds)

    async def topics(self) -> list[TopicStatus]:
        return await log.topics(self._coordinating)

    # Coordination

    async def ensure_group(self, group: str, topic: str, start: str) -> None:
        await coordination.ensure_group(self._coordinating, group, topic, start, self._clock())

    async def register(self, member: MemberRow, *, replaces: str | None = None) -> None:
        await coordination.register(self._coordinating, member, replaces, self._clock())
        self._doorbell.serve(member.member)

    async def beat(self, member: str, *, turned: bool, stopping: bool) -> bool:
        ((alive,),) = await self._coordinating.write("beat", member, turned, stopping, self._clock())
        return bool(alive)

    async def leave(self, member: str) -> None:
        await self._coordinating.write("leave", member)

    async def generation(self) -> int:
        ((generation,),) = await self._coordinating.read("generation")
        return int(generation)

    async def view(self, pairs: Sequence[tuple[str, str]]) -> View:
        return await coordination.view(self._coordinating, pairs, self._clock())

    async def acquire(
        self, member: str, wanted: Sequence[tuple[str, str, int]], *, dead: Sequence[Beat] = ()
    ) -> list[Held]:
        ids = await self._known(wanted)
        return await coordination.acquire(self._coordinating, ids, member, wanted, dead, self._clock())

    async def release(self, leases: Sequence[Lease]) -> None:
        ids = await self._known([(lease.group, lease.topic, lease.partition) for lease in leases])
        await coordination.release(self._coordinating, ids, leases)

    async def members(self) -> list[MemberRow]:
        rows = await coordination.view(self._coordinating, (), self._clock())
        return [row for row in rows.members if row.alive_until > rows.now]

    async def _known(self, places: Sequence[tuple[str, str, int]]) -> coordination.GroupIds:
        """The ids of groups; asked for again when one is not among them."""
        if any(place[:2] not in self._group_ids for place in places):
            self._group_ids = await coordination.group_ids(self._coordinating)
        return self._group_ids

    # Settlement

    async def commit(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        if any(one.statements for one in settlements):
            raise StreamsError("this version cannot execute SQL in a settlement on PostgreSQL; nothing was written")
        ids = await self._known([(s.lease.group, s.lease.topic, s.lease.partition) for s in settlements])
        known: list[Settlement] = []
        last: dict[Lease, int] = {}
        for one in settlements:
            if (one.lease.group, one.lease.topic) in ids and one.progress.number > last.get(one.lease, 0):
                last[one.lease] = one.progress.number
                known.append(one)
        if not known:
            return [Verdict(False)] * len(settlements)
        withheld: dict[tuple[Lease, int], tuple[int, ...]] = {}
        for part in settlement.parts(known, records=WRITE_RECORDS, size=WRITE_BYTES):
            withheld |= await self._settle(part, ids)
        held = {lease for lease, _ in withheld}
        return [Verdict(one.lease in held, withheld.get((one.lease, one.progress.number), ())) for one in settlements]

    async def _settle(
        self, settlements: Sequence[Settlement], ids: coordination.GroupIds
    ) -> dict[tuple[Lease, int], tuple[int, ...]]:
        """One transaction; of those that are not refused, by lease and number, what is withheld.

        Once more when a lease has passed on meanwhile: that one is refused from the start then. In halves when the
        server has no room for so many locks: each settlement is a whole, all together need not be.
        """
        group_ids = [ids[one.lease.group, one.lease.topic] for one in settlements]
        arguments = settlement.arguments(settlements, group_ids)
        for _ in range(SETTLE_TRIES):
            try:
                rows = await self._settling.write("settle", *arguments, self._clock())
            except LeasePassedOn:
                continue
            except LockTableFull:
                if len(settlements) == 1:
                    raise
                half = len(settlements) // 2
                return await self._settle(settlements[:half], ids) | await self._settle(settlements[half:], ids)
            return {
                (settlements[n - 1].lease, settlements[n - 1].progress.number): tuple(offsets) for n, offsets in rows
            }
        raise StoreBusy("leases pass on faster than anything can be settled; nothing was written")

    async def groups(self) -> list[GroupStatus]:
        return await settlement.groups(self._coordinating, self._clock())

    async def parked(self) -> list[ParkedKey]:
        return await settlement.parked(self._coordinating)

    async def dead(self, which: DeadFilter = EVERY_LETTER) -> list[DeadLetter]:
        return await settlement.dead(self._coordinating, which)

    async def remove_dead(self, which: DeadFilter) -> int:
        ((removed,),) = await self._coordinating.write("remove_dead", *msgspec.structs.astuple(which))
        return int(removed)


def _fitting(publications: Sequence[Publication]) -> int:
    """How many of them one statement takes; at least one."""
    size = 0
    for count, one in enumerate(publications[:WRITE_RECORDS]):
        size += len(one.payload)
        if count and size > WRITE_BYTES:
            return count
    return WRITE_RECORDS

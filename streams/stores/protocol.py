"""What a store promises.

Three concerns, kept apart: the *log* (topics and records), *coordination* (members and leases) and *settlement* (what
groups have done). Each verb is one transaction: it happens whole or not at all, also when its caller is cancelled.
Every verb may raise `StoreUnavailable` (nothing happened); those that write may raise `StoreBusy` too, and
`PublishUncertain`, whichever verb it is, when the commit was sent and its answer lost.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from partition import Beat, Lease
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


class Appender(Protocol):
    """The part of the log that a caller's own transaction can carry."""

    async def topic(self, name: str) -> TopicRow | None:
        """The topic's row, or None."""

    async def ensure_topic(self, name: str, partitions: int, codec: str) -> TopicRow:
        """The topic's row; made as described when there is none. An existing row is returned as it is."""

    async def append(self, publications: Sequence[Publication]) -> list[int]:
        """Write all records; their offsets, in the order given. Offsets of a key grow in commit order.

        Where another transaction holds the place of a key, it is waited for.

        Raises:
            StoreBusy: for too long; nothing was written.
            PublishUncertain: the commit was sent and its answer lost.
        """


class InTransaction(Appender, Protocol):
    """An appender in the caller's own transaction."""

    def whole(self) -> AbstractAsyncContextManager[None]:
        """All that the block appends, or nothing of it when it raises. The transaction goes on."""


class Writer(Appender, Protocol):
    """The part of the log that a publisher writes to."""

    async def try_append(self, publications: Sequence[Publication]) -> list[int | None]:
        """Like `append`, but wait for nobody: None for each record of a key whose place another transaction holds.

        A store may also write the first ones only, and leave out all that follow.
        """


class Log(Writer, Protocol):
    """Topics and their records."""

    def within(self, connection: object) -> InTransaction:
        """The same verbs in the caller's open transaction; they commit or vanish with it. Its errors pass unchanged.

        Raises:
            InvalidConnection: not a connection to this database with a transaction open.
        """

    async def fetch(self, cursors: Sequence[Cursor]) -> list[Fetched]:
        """What lies above each cursor and in its holes, in one snapshot; answers in the order of the cursors.

        Records come lowest first and none is left out below the last, not those in holes either. At least one comes if
        there is one and `limit_records` is not 0, whatever its size.

        Where transactions overlap, an offset below a visible one may still be filled. Such holes are in the answer
        until they are filled, or nobody is left who could fill them; what the cursor skips is none. The records of a
        key never come out of their order: one that may still fill a hole lies above all visible ones of its key.
        """

    async def rung(self, timeout_seconds: float) -> None:
        """Return when somebody may have written since the last call, at the latest after the timeout. A hint only."""

    async def topics(self) -> list[TopicStatus]:
        """All topics by name."""


class Coordination(Protocol):
    """Members, leases, epochs."""

    async def ensure_group(self, group: str, topic: str, start: str) -> None:
        """Make the group of the topic unless it exists: all positions at once, `"earliest"` or `"latest"`.

        Raises:
            UnknownTopic: there is no such topic.
        """

    async def register(self, member: MemberRow, *, replaces: str | None = None) -> None:
        """Write the member's row, alive for its time to live from now; declare `replaces` dead.

        Rows of the dead that hold no lease any more are removed here. An id is registered once: a second time is
        refused (`StoreUnavailable`), so that no member comes back to life; after a lost answer, register a new id.
        """

    async def beat(self, member: str, *, turned: bool, stopping: bool) -> bool:
        """Prolong the member's life by its time to live. False: it has expired, or was declared dead; that is final."""

    async def leave(self, member: str) -> None:
        """Release what the member still holds and remove its row."""

    async def generation(self) -> int:
        """A number that has grown whenever members, groups or leases changed hands. Cheap."""

    async def view(self, pairs: Sequence[tuple[str, str]]) -> View:
        """All members that are not declared dead, and the leases of the (group, topic) pairs, in one snapshot.

        Raises:
            UnknownTopic: there is no such group of the topic.
        """

    async def acquire(
        self, member: str, wanted: Sequence[tuple[str, str, int]], *, dead: Sequence[Beat] = ()
    ) -> list[Held]:
        """Take the (group, topic, partition) leases that are free, each under an epoch one higher; the others are left.

        First the `dead` are declared so, each only if its row still says what the looker saw and has expired, or lies
        too far ahead to be true. Positions are read after the epoch is raised. A member that is not alive gets nothing.
        """

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back; those no longer held under their member and epoch are left alone."""

    async def members(self) -> list[MemberRow]:
        """All members alive by the database's clock."""


class SettlementLog(Protocol):
    """What groups have done."""

    withholds: bool
    """Whether `commit` may withhold records that publish; else it waits for nobody."""

    async def commit(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Apply each settlement, fenced by its lease's member and epoch, or refuse it: then nothing of it happened.

        A record that is withheld has to be among the `causes` of the next settlement of its partition.

        Settlements are keyed by (group, topic, partition, epoch, number), and numbers grow within an epoch. One that is
        already in, or before one that is, is not applied again and answers as it did: trying again after a lost answer
        is safe. Of a record that is dead already, the new letter replaces the old one.

        Raises:
            UnknownTopic: a record is to be published to a partition that does not exist; nothing of any was applied.
        """

    async def groups(self) -> list[GroupStatus]:
        """All groups with their partitions, in one snapshot."""

    async def parked(self) -> list[ParkedKey]:
        """The keys that are failing, by group, topic, partition and offset."""

    async def dead(self, which: DeadFilter = EVERY_LETTER) -> list[DeadLetter]:
        """The dead letters that are meant, oldest first."""

    async def remove_dead(self, which: DeadFilter) -> int:
        """Remove the dead letters that are meant; how many there were. Their records stay settled, and in the log."""


class Store(Log, Coordination, SettlementLog, Protocol):
    """A connection to a database. Verbs may overlap; one after another of the same kind they keep their order."""

    poll_seconds: float
    """How often to look for news although nobody rang."""

    async def open(self, *, migrate: bool, create: bool) -> None:
        """Connect; with `migrate`, bring the schema up to date; without `create`, make no database.

        Raises:
            MigrationNeeded: there is no schema, or one that this version cannot use.
        """

    async def close(self) -> None:
        """Give all connections back. Bounded."""

    def sibling(self, *, bound_seconds: float | None = None) -> "Store":
        """A store on the same database that shares no connection, for another event loop; it is to be opened.

        With `bound_seconds` no verb of it waits longer, and what it writes need not survive a power cut: the heart's.
        """

"""What operators look at and do, as functions: the nouns of the command line."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypedDict, Unpack

from streams.stores import Store
from streams.stores.rows import DeadFilter, DeadLetter, GroupStatus, MemberRow, ParkedKey, TopicStatus


class Which(TypedDict, total=False):
    """Which dead letters are meant: those to which all applies that is given."""

    group: str
    topic: str
    partition: int
    offset: int
    key: str
    error: str
    """A part of the text of its error."""
    since: datetime
    """When it died at the earliest; without a time zone it is local time."""


class DeadLetters:
    """The records that their groups gave up on. All methods take the words of `Which`; without any, all are meant."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    async def list(self, **which: Unpack[Which]) -> list[DeadLetter]:
        """Those that are meant, oldest first."""
        return await self._store().dead(_filter(which))

    async def discard(self, **which: Unpack[Which]) -> int:
        """Remove those that are meant, for good; how many there were.

        Their records stay settled, and stay in the topic's log.
        """
        return await self._store().remove_dead(_filter(which))


class Admin:
    """Topics, groups, members and dead letters of an entered app's database."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self.dead = DeadLetters(store)

    async def topics(self) -> list[TopicStatus]:
        """All topics by name."""
        return await self._store().topics()

    async def groups(self) -> list[GroupStatus]:
        """All groups with owner, position and lag of each partition, from one snapshot."""
        return await self._store().groups()

    async def keys(self) -> list[ParkedKey]:
        """The keys that are failing, by group, topic, partition and offset."""
        return await self._store().parked()

    async def members(self) -> list[MemberRow]:
        """All workers alive by the database's clock."""
        return await self._store().members()


def _filter(which: Which) -> DeadFilter:
    words: dict[str, Any] = {**which}
    if since := which.get("since"):
        words["since"] = round(since.timestamp() * 1_000_000)
    return DeadFilter(**words)

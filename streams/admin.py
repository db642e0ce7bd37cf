"""What operators look at and do, as functions: the nouns of the command line."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypedDict, Unpack

import msgspec

from partition import partition_of, slot_of
from streams.errors import InvalidKey, UnknownTopic
from streams.record import Key, encode_key
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


class GroupAt(msgspec.Struct, frozen=True):
    """A group where a key lives: the partition's owner and position, and the key itself if it is failing."""

    group: str
    owner: str | None
    epoch: int
    position: int
    end: int
    failing: ParkedKey | None


class Whereabouts(msgspec.Struct, frozen=True):
    """Where a key of a topic lives."""

    topic: str
    key: str
    slot: int
    partition: int
    groups: tuple[GroupAt, ...]


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

    async def where(self, topic: str, key: Key) -> Whereabouts:
        """The slot and the partition of a key, and how each group does there.

        Raises:
            UnknownTopic: the topic is not in the database.
            InvalidKey: nothing can have this key; None is no key.
        """
        name = encode_key(key)
        if name is None:
            raise InvalidKey("records without a key have no place of their own: each goes to a partition at random")
        row = await self._store().topic(topic)
        if row is None:
            raise UnknownTopic(topic, f"topic {topic!r} is not in the database")
        partition = partition_of(name, row.partitions)
        failing = {one.group: one for one in await self.keys() if (one.topic, one.key) == (topic, name)}
        groups = tuple(
            GroupAt(group.group, at.owner, at.epoch, at.position, at.end, failing.get(group.group))
            for group in await self.groups()
            if group.topic == topic
            for at in group.partitions
            if at.partition == partition
        )
        return Whereabouts(topic, name, slot_of(name), partition, groups)

    async def members(self) -> list[MemberRow]:
        """All workers alive by the database's clock."""
        return await self._store().members()


def _filter(which: Which) -> DeadFilter:
    words: dict[str, Any] = {**which}
    if since := which.get("since"):
        words["since"] = round(since.timestamp() * 1_000_000)
    return DeadFilter(**words)

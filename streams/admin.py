"""What operators look at, as functions: the nouns of the command line."""

from collections.abc import Callable

from streams.stores import Store
from streams.stores.rows import DeadLetter, GroupStatus, MemberRow, TopicStatus


class DeadLetters:
    """The records that their groups gave up on."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store

    async def list(self) -> list[DeadLetter]:
        """All dead letters, oldest first."""
        return await self._store().dead()


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

    async def members(self) -> list[MemberRow]:
        """All workers alive by the database's clock."""
        return await self._store().members()

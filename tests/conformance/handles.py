"""Handles on the database of a test, as many as it asks for."""

from contextlib import AsyncExitStack

from streams.stores.protocol import Store


class Handles:
    """Handles on the test's database; they are closed after it."""

    def __init__(self, first: Store, stack: AsyncExitStack) -> None:
        self.first = first
        self.count = 1
        self._stack = stack

    async def open(self) -> Store:
        """One more, that shares no connection with the others."""
        store = self.first.sibling()
        self.count += 1
        self._stack.push_async_callback(store.close)
        await store.open(migrate=False, create=False)
        return store

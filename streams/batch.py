"""Many items on their way to the log: checked one by one, written by the thousand."""

from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any

from streams.errors import InvalidPayload, PublishUncertain, StoreUnavailable
from streams.topic import Items, Prepared, Topic

BATCH_RECORDS = 1_000
BATCH_BYTES = 4 << 20


class Batch:
    """Items of a `publish_many` on their way: checked, and written when they are enough for one write."""

    def __init__(self, topic: Topic[Any], append: Callable[[list[Prepared]], Awaitable[object]]) -> None:
        self._topic = topic
        self._append = append
        self._records: list[Prepared] = []
        self._size = 0
        self.written = 0

    @property
    def at(self) -> int:
        """The index of the item that is looked at; of the first that was to be written, when that failed."""
        return self.written + len(self._records)

    async def publish(self, items: Items[Any]) -> None:
        """All of them, to the end or to the first that fails."""
        if isinstance(items, AsyncIterable):
            async for item in items:
                if self._add(item):
                    await self._write()
        else:
            for item in items:
                if self._add(item):
                    await self._write()
        if self._records:
            await self._write()

    def _add(self, item: Any) -> bool:
        """Check and take one item; whether the batch is full."""
        match item:
            case (key, payload):
                record = self._topic.prepare(key, payload, None)
            case (key, payload, headers):
                record = self._topic.prepare(key, payload, headers)
            case _:
                raise InvalidPayload("an item of publish_many is (key, payload) or (key, payload, headers)")
        self._records.append(record)
        self._size += len(record.payload)
        return len(self._records) >= BATCH_RECORDS or self._size >= BATCH_BYTES

    async def _write(self) -> None:
        records, self._records, self._size = self._records, [], 0
        try:
            await self._append(records)
        except (StoreUnavailable, PublishUncertain) as error:
            self.written += error.written
            raise
        self.written += len(records)

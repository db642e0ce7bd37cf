"""What handlers did, and whether the guarantee of order was kept while they did it."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from streams import Context


class Ledger:
    """Written by handlers. The records of each key are the numbers from 0 up, in this order."""

    def __init__(self) -> None:
        self.begun: list[tuple[str | None, int]] = []
        self.ended: list[tuple[str | None, int]] = []
        self.violations: list[str] = []
        self.most_at_once = 0
        self._running: Counter[str | None] = Counter()
        self._reached: dict[str | None, int] = defaultdict(int)
        self._awaited: list[tuple[int, anyio.Event]] = []

    @contextmanager
    def record(self, ctx: Context, number: int) -> Iterator[None]:
        """The run of a handler; it has ended when the block does so without an error."""
        key = ctx.key
        if key is not None:
            if self._running[key]:
                self.violations.append(f"key {key}: {number} started while another ran")
            if number > self._reached[key]:
                self.violations.append(f"key {key}: {number} started before {self._reached[key]} had ended")
        self.begun.append((key, number))
        self._running[key] += 1
        self.most_at_once = max(self.most_at_once, self._running.total())
        try:
            yield
        finally:
            self._running[key] -= 1
        self.ended.append((key, number))
        self._reached[key] = max(self._reached[key], number + 1)
        for count, event in self._awaited:
            if len(self.ended) >= count:
                event.set()

    async def reaches(self, count: int) -> None:
        """Return when so many handlers have ended."""
        event = anyio.Event()
        self._awaited.append((count, event))
        if len(self.ended) < count:
            await event.wait()

    def of(self, key: str | None) -> list[int]:
        """The numbers of a key whose handlers have ended, in this order."""
        return [number for other, number in self.ended if other == key]

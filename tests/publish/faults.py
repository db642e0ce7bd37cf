"""A store whose appends can be counted, held up and made to fail, around a real one."""

from collections.abc import Callable, Sequence

import anyio

from streams.stores.protocol import Writer
from streams.stores.rows import Publication, TopicRow

Payloads = list[bytes]


class Gate:
    """Open, unless the test closes it."""

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def close(self) -> None:
        self._event = anyio.Event()

    def open(self) -> None:
        assert self._event is not None
        self._event.set()
        self._event = None

    async def wait(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self._event is not None:
            await self._event.wait()


class Faulty:
    """Passes everything on. `before` and `after` are asked about each write, and may raise."""

    def __init__(self, store: Writer) -> None:
        self.store = store
        self.writes: list[Payloads] = []
        self.gate = Gate()
        self.topic_gate = Gate()
        self.before: Callable[[Payloads], None] = lambda payloads: None
        self.after: Callable[[Payloads], None] = lambda payloads: None

    async def topic(self, name: str) -> TopicRow | None:
        return await self.store.topic(name)

    async def ensure_topic(self, name: str, partitions: int, codec: str) -> TopicRow:
        await self.topic_gate.wait()
        return await self.store.ensure_topic(name, partitions, codec)

    async def append(self, publications: Sequence[Publication]) -> list[int]:
        return await self.store.append(publications)

    async def try_append(self, publications: Sequence[Publication]) -> list[int | None]:
        payloads = [publication.payload for publication in publications]
        self.writes.append(payloads)
        await self.gate.wait()
        self.before(payloads)
        offsets = await self.store.try_append(publications)
        self.after(payloads)
        return offsets

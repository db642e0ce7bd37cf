"""Records as JSON lines: read from a stream in bounded memory, up to the first line that cannot be published."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
import msgspec

from streams.cli.payload import from_json
from streams.errors import InvalidPayload, StreamsError
from streams.topic import Topic

CHUNK_BYTES = 1 << 16
LINE_BYTES = 16 << 20
"""A payload of the largest size, all escaped, is well below it."""

Item = tuple[str | int | None, Any, Mapping[str, str] | None]


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """One line. The key has to be there: `null` asks for no order, and a forgotten one would lose it."""

    key: str | int | None
    payload: msgspec.Raw
    headers: dict[str, str] | None = None


class Lines:
    """The items of a stream of JSON lines, each checked. It ends at the first bad one: `fault` says why, if any.

    `headers` are those of every record; a line's own go before them. `on_read` is told of the bytes of each line.
    """

    def __init__(
        self, descriptor: int, topic: Topic[Any], headers: Mapping[str, str], *, on_read: Callable[[int], object]
    ) -> None:
        self.number = 0
        self.fault: StreamsError | None = None
        self._descriptor = descriptor
        self._topic = topic
        self._headers = headers
        self._on_read = on_read

    async def __aiter__(self) -> AsyncIterator[Item]:
        try:
            async for raw in _split(self._descriptor):
                self.number += 1
                self._on_read(len(raw) + 1)
                if raw.strip():
                    item = self._item(raw)
                    self._topic.prepare(*item)
                    yield item
        except StreamsError as error:
            self.fault = error

    def _item(self, raw: bytes) -> Item:
        try:
            line = msgspec.json.decode(raw, type=Line)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidPayload(f'not {{"key": …, "payload": …, "headers": {{…}}}}: {error}') from None
        return (
            line.key,
            from_json(bytes(line.payload), self._topic.codec.name),
            {**self._headers, **(line.headers or {})},
        )


async def _split(descriptor: int) -> AsyncIterator[bytes]:
    """The lines of a stream, without their ends; the last one may lack its end."""
    rest = b""
    while chunk := await _read(descriptor):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
        if len(rest) > LINE_BYTES:
            raise InvalidPayload(f"a line has over {LINE_BYTES:,} bytes; is there a record in each line?")
    if rest:
        yield rest


async def _read(descriptor: int) -> bytes:
    """What is there to read, waiting so that an interrupt is not kept waiting too; nothing at the end."""
    with suppress(OSError):  # A regular file cannot be waited for, and need not be.
        await anyio.wait_readable(descriptor)
    return os.read(descriptor, CHUNK_BYTES)

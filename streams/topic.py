"""Topics: a name, a payload type, and what may be published under it."""

import random
import re
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar

import msgspec

from partition import Order, partition_of
from streams.codec import Codec, CodecName
from streams.errors import InvalidName, SettingsError
from streams.record import Key, Receipt, encode_headers, encode_key
from streams.retry import DEFAULT_RETRY, Retry
from streams.stores.rows import Publication

if TYPE_CHECKING:
    from streams.app import Streams

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R", bound=Awaitable[Any])

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
Start = Literal["earliest", "latest"]

MAX_PARTITIONS = 4096
MAX_PAYLOAD = 1 << 20
LARGEST_PAYLOAD = 1 << 27
"""What a database takes, and a dead letter can carry."""
"""What every database takes in one field: SQLite's end at 10^9 bytes, PostgreSQL's at 2^30."""

Items = (
    Iterable[tuple[Key, T] | tuple[Key, T, Mapping[str, str] | None]]
    | AsyncIterable[tuple[Key, T] | tuple[Key, T, Mapping[str, str] | None]]
)


def check_name(kind: str, name: str) -> str:
    """The name of a topic or group.

    Raises:
        InvalidName: not 1 to 128 of `[A-Za-z0-9._-]`, the first a letter or digit.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidName(
            f"{kind} {name!r}: a name has 1 to 128 of A-Z a-z 0-9 . _ -, and starts with a letter or digit"
        )
    return name


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """A record that passed every check and has no topic id yet."""

    partition: int
    key: str | None
    payload: bytes
    headers: bytes | None

    def on(self, topic_id: int) -> Publication:
        """The record as the store takes it."""
        return Publication(topic_id, self.partition, self.key, self.payload, self.headers)


class Topic(Generic[T]):
    """A topic as an app declares it. Made by `Streams.topic`."""

    def __init__(
        self,
        app: "Streams",
        name: str,
        type_: Any,
        *,
        partitions: int = 8,
        max_payload: int = MAX_PAYLOAD,
        codec: CodecName | None = None,
    ) -> None:
        self.name = check_name("topic", name)
        if isinstance(partitions, bool) or not isinstance(partitions, int) or not 1 <= partitions <= MAX_PARTITIONS:
            raise SettingsError(f"topic {name!r}: partitions={partitions!r} is not a number from 1 to {MAX_PARTITIONS}")
        if isinstance(max_payload, bool) or not isinstance(max_payload, int) or not 1 <= max_payload <= LARGEST_PAYLOAD:
            raise SettingsError(
                f"topic {name!r}: max_payload={max_payload!r} is not a number of bytes from 1 to {LARGEST_PAYLOAD}"
            )
        self.partitions = partitions
        self.type = type_
        self.codec: Codec[T] = Codec(name, type_, codec, max_payload)
        self._app = app

    def __repr__(self) -> str:
        return f"<Topic {self.name!r}, {self.partitions} partitions, {self.codec.name}>"

    async def publish(
        self, key: Key, payload: T, *, headers: Mapping[str, str] | None = None, connection: object = None
    ) -> Receipt:
        """Publish one record; see `Streams.publish`."""
        return await self._app.publish(self, key, payload, headers=headers, connection=connection)

    async def publish_many(self, items: Items[T], *, connection: object = None) -> int:
        """Publish many records; see `Streams.publish_many`."""
        return await self._app.publish_many(self, items, connection=connection)

    def subscribe(
        self,
        *,
        group: str,
        start: Start = "earliest",
        order: Order = "key",
        concurrency: int = 64,
        retry: Retry = DEFAULT_RETRY,
    ) -> "Subscribe[T]":
        """Make the decorated handler a group of this topic; see `Streams.subscribe`."""
        return self._app.subscribe(self, group=group, start=start, order=order, concurrency=concurrency, retry=retry)

    def prepare(self, key: Key, payload: T, headers: Mapping[str, str] | None) -> Prepared:
        """Check and encode one record: all that can be refused is refused here, before any I/O."""
        encoded = encode_key(key)
        chosen = random.randrange(self.partitions) if encoded is None else partition_of(encoded, self.partitions)
        return Prepared(chosen, encoded, self.codec.encode(payload), encode_headers(headers))


class Subscribe(Generic[T]):
    """A decorator that keeps the handler as it is; its first parameter takes the topic's payload."""

    def __init__(self, register: Callable[[Callable[..., Awaitable[Any]]], None]) -> None:
        self._register = register

    def __call__(self, handler: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
        self._register(handler)
        return handler

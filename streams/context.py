"""What a handler may know of its record, and what it may do along with settling it."""

from collections.abc import Callable, Generator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from streams.errors import InvalidPayload, LeaseLost, StreamsError
from streams.record import Key, decode_headers
from streams.stores.rows import Publication, Record
from streams.topic import LARGEST_PAYLOAD, Topic

Prepare = Callable[[str | Topic[Any], Key, Any, Mapping[str, str] | None], Publication]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Taken:
    """The answer of a call that has taken effect; awaiting it does nothing, and not awaiting it loses nothing."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


TAKEN = Taken()


class Context:
    """One attempt at one record. Handed to handlers; not for longer than the attempt."""

    __slots__ = (
        "_lease_lost",
        "_open",
        "_prepare",
        "_record",
        "_size",
        "attempt",
        "attempts",
        "epoch",
        "group",
        "outbox",
        "partition",
        "topic",
    )

    def __init__(
        self,
        record: Record,
        *,
        topic: str,
        partition: int,
        group: str,
        epoch: int,
        attempt: int,
        attempts: int,
        prepare: Prepare,
        lease_lost: Callable[[], bool],
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.group = group
        self.epoch = epoch
        self.attempt = attempt
        self.attempts = attempts
        self.outbox: list[Publication] = []
        self._record = record
        self._prepare = prepare
        self._lease_lost = lease_lost
        self._open = True
        self._size = 0

    @property
    def offset(self) -> int:
        """The record's place in its partition, from 1."""
        return self._record.offset

    @property
    def key(self) -> str | None:
        """The key it was published under, as a str."""
        return self._record.key

    @property
    def payload(self) -> bytes:
        """The payload as it is stored."""
        return self._record.payload

    @property
    def headers(self) -> dict[str, str]:
        """The headers it was published with; the dict is the caller's own."""
        return decode_headers(self._record.headers)

    @property
    def published_at(self) -> datetime:
        """When it was written, by the database's clock, in UTC."""
        return EPOCH + timedelta(microseconds=self._record.published_at)

    @property
    def is_final_attempt(self) -> bool:
        """Whether the record goes to the dead letters if this attempt fails."""
        return self.attempt >= self.attempts

    @property
    def lease_lost(self) -> bool:
        """Whether the partition may belong to another member now: nothing that is done from here on counts."""
        return self._lease_lost()

    def publish(
        self, topic: str | Topic[Any], key: Key, payload: Any, *, headers: Mapping[str, str] | None = None
    ) -> Taken:
        """Publish along with settling this record: both are committed together, or neither is.

        Takes effect at the call. The records of one key are published in the order in which they settle.

        Raises:
            UnknownTopic, InvalidKey, InvalidPayload, InvalidHeaders: as `Streams.publish`; nothing is published.
            InvalidPayload: also when all that this attempt publishes has more than 128 MiB.
        """
        if not self._open:
            raise StreamsError("this attempt has ended; publish with ctx before the handler returns, or with the app")
        if self._lease_lost():
            raise LeaseLost("the partition may belong to another member now; what this attempt does no longer counts")
        publication = self._prepare(topic, key, payload, headers)
        self._size += len(publication.payload)
        if self._size > LARGEST_PAYLOAD:
            raise InvalidPayload(
                f"what the handler publishes with one record has {self._size:,} bytes, and one transaction carries "
                f"{LARGEST_PAYLOAD:,}; publish references, or publish with the app before"
            )
        self.outbox.append(publication)
        return TAKEN

    def close(self) -> None:
        """The attempt has ended."""
        self._open = False

"""Rows of the protocol with everything filled in that a test does not speak of."""

from typing import Any

from partition import Beat, Lease, Progress, Range
from streams.stores.protocol import Store
from streams.stores.rows import (
    Cursor,
    DeadLetter,
    Fetched,
    Held,
    MemberRow,
    Parked,
    PartitionStatus,
    Publication,
    Record,
    Settlement,
    TopicRow,
    Verdict,
)
from tests.conformance.clock import MICROS

APPLIED, REFUSED = Verdict(True), Verdict(False)

LEASE_SECONDS = 10
ORDERS = "orders"
BILLING = "billing"
PAIR = BILLING, ORDERS


def publication(
    topic: TopicRow,
    partition: int = 0,
    payload: bytes = b"payload",
    *,
    key: str | None = None,
    headers: bytes | None = None,
) -> Publication:
    return Publication(topic.id, partition, key, payload, headers)


def publications(topic: TopicRow, count: int, partition: int = 0) -> list[Publication]:
    """Records whose payloads are their offsets in an empty partition."""
    return [publication(topic, partition, str(number).encode()) for number in range(1, count + 1)]


def cursor(
    topic: TopicRow,
    partition: int = 0,
    after: int = 0,
    *,
    skip: tuple[tuple[int, int], ...] = (),
    limit_records: int = 10_000,
    limit_bytes: int = 1 << 30,
) -> Cursor:
    return Cursor(topic.id, partition, after, ranges(*skip), limit_records, limit_bytes)


async def read(store: Store, topic: TopicRow, partition: int = 0, after: int = 0, **limits: Any) -> Fetched:
    """What one cursor answers; without limits, the whole partition."""
    (fetched,) = await store.fetch([cursor(topic, partition, after, **limits)])
    return fetched


async def records_of(store: Store, topic: TopicRow, partition: int = 0) -> list[Record]:
    return (await read(store, topic, partition)).records


async def payloads_of(store: Store, topic: TopicRow, partition: int = 0) -> list[bytes]:
    return [record.payload for record in await records_of(store, topic, partition)]


def offsets(fetched: Fetched) -> list[int]:
    return [record.offset for record in fetched.records]


def ranges(*pairs: tuple[int, int]) -> tuple[Range, ...]:
    return tuple(Range(*pair) for pair in pairs)


def member(name: str, *, lease_seconds: float = LEASE_SECONDS) -> MemberRow:
    return MemberRow(name, "host-of-" + name, 4711, (PAIR,), round(lease_seconds * MICROS))


def seen(row: MemberRow) -> Beat:
    """The evidence that a looker has from a member's row."""
    return Beat(row.member, row.alive_until, row.lease_micros)


async def row_of(store: Store, name: str) -> MemberRow:
    """The row of a member that was not declared dead, as a view shows it."""
    (row,) = [row for row in (await store.view([])).members if row.member == name]
    return row


async def take(store: Store, name: str, partition: int = 0) -> Held:
    """Acquire a partition that is free."""
    (held,) = await store.acquire(name, [(*PAIR, partition)])
    return held


async def take_again(store: Store, held: Held) -> Held:
    """Release and acquire: what a next owner would be told."""
    await store.release([held.lease])
    assert held.lease.member is not None
    return await take(store, held.lease.member, held.lease.partition)


def settlement(
    lease: Lease,
    number: int = 1,
    position: int = 0,
    *settled: tuple[int, int],
    whole: bool = False,
    **effects: Any,
) -> Settlement:
    return Settlement(lease, Progress(number, position, ranges(*settled), whole, 1), **effects)


def letter(lease: Lease, offset: int, **fields: Any) -> DeadLetter:
    given: dict[str, Any] = {
        "group": lease.group,
        "topic": lease.topic,
        "partition": lease.partition,
        "offset": offset,
        "key": "customer-7",
        "payload": b"\0 raw",
        "headers": b"{}",
        "published_at": 123,
        "attempts": 3,
        "cause": "exhausted",
        "error": "ValueError: no",
        "traceback": "Traceback …",
    }
    return DeadLetter(**given | fields)


def parked(offset: int, *, attempts: int = 1, key: str | None = "customer-7") -> Parked:
    return Parked(offset, key, attempts, due_at=5, since=4, error="ValueError: no")


async def status_of(store: Store, partition: int = 0, pair: tuple[str, str] = PAIR) -> PartitionStatus:
    (group,) = [group for group in await store.groups() if (group.group, group.topic) == pair]
    return group.partitions[partition]

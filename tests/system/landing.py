"""Writes a file that holds some of everything as SQL, as this state of the code makes it; later states have to open it.

    python -m tests.system.landing > tests/system/landed/0002_name_of_the_last_migration.sql

Its clock stands in the past, so the member that holds its leases is long dead.
"""

import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import anyio

from partition import Progress, Range, partition_of
from streams.stores.protocol import Store
from streams.stores.rows import Cursor, DeadLetter, Held, MemberRow, Publication, Record, Settlement, Verdict
from streams.stores.sqlite.store import SqliteStore
from streams.stores.sqlite.url import parse
from tests.conformance.clock import MICROS, Clock

PARTITIONS = 8  # as the app of these tests has them
KEYS, RECORDS = 10, 60
GROUP, TOPIC = "first", "numbers"
DEAD = 21
"""The number whose record is dead: the third of its key, and there are more behind it."""


def key_of(number: int) -> str:
    return f"key-{number % KEYS}"


def settled(number: int) -> bool:
    """The first half of every key but one; what shares a partition with that one is settled ahead of the position."""
    return key_of(number) != "key-7" and number < RECORDS // 2


async def fill(store: Store) -> None:
    """Publish, settle some, and leave without a word."""
    numbers = await store.ensure_topic(TOPIC, PARTITIONS, "json")
    doubled = await store.ensure_topic("doubled", PARTITIONS, "json")
    for number in range(RECORDS):
        key = key_of(number)
        await store.append([Publication(numbers.id, partition_of(key, PARTITIONS), key, b"%d" % number, None)])
    for group, start in ((GROUP, "earliest"), ("late", "latest")):
        await store.ensure_group(group, TOPIC, start)
    await store.register(MemberRow("gone", "elsewhere", 4711, ((GROUP, TOPIC),), 10 * MICROS))
    for held in await store.acquire("gone", [(GROUP, TOPIC, partition) for partition in range(PARTITIONS)]):
        cursor = Cursor(numbers.id, held.lease.partition, 0, (), RECORDS, 1 << 20)
        (fetched,) = await store.fetch([cursor])
        await settle(store, doubled.id, held, fetched.records)


async def settle(store: Store, doubled: int, held: Held, records: list[Record]) -> None:
    """One settlement for each record, as the worker sends them: the position, and ranges above it."""
    position, sent = 0, 0
    for record in records:
        if not settled(int(record.payload)):
            continue
        sent += 1
        ahead = record.offset > position + 1
        position = position if ahead else record.offset
        ranges = (Range(record.offset, record.offset),) if ahead else ()
        progress = Progress(sent, position, ranges, False, 1)
        number = int(record.payload)
        if number == DEAD:
            made = Settlement(held.lease, progress, dead=(letter(held, record),))
        else:
            publication = Publication(doubled, held.lease.partition, record.key, b"%d" % (number * 2), None)
            made = Settlement(held.lease, progress, publish=(publication,))
        assert await store.commit([made]) == [Verdict(True)]


def letter(held: Held, record: Record) -> DeadLetter:
    fields = (record.offset, record.key, record.payload, record.headers, record.published_at)
    lease = held.lease
    return DeadLetter(lease.group, lease.topic, lease.partition, *fields, 12, "exhausted", "ValueError: no", "Trace")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "landed.db"
        store = SqliteStore(parse(f"sqlite:///{path}"), clock=Clock())
        await store.open(migrate=True, create=True)
        await fill(store)
        await store.close()
        with closing(sqlite3.connect(path)) as connection:
            sys.stdout.writelines(f"{line}\n" for line in connection.iterdump())


if __name__ == "__main__":
    anyio.run(main)

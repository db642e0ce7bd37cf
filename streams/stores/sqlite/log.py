"""Topics and records in SQLite, as functions inside a transaction."""

from collections import Counter
from collections.abc import Sequence

from streams.errors import UnknownTopic
from streams.stores.rows import Cursor, Fetched, Publication, Record, TopicRow, TopicStatus
from streams.stores.sqlite.connection import Transaction


def topic(tx: Transaction, name: str) -> TopicRow | None:
    """The topic's row, or None."""
    row = tx.one("topic", {"name": name})
    if row is None:
        return None
    topic_id, partitions, codec = row
    return TopicRow(topic_id, name, partitions, codec.decode())


def ensure_topic(tx: Transaction, name: str, partitions: int, codec: str, now: int) -> TopicRow:
    """The topic's row; made, with its partitions, when there is none."""
    found = topic(tx, name)
    if found is None:
        tx.run("insert_topic", {"name": name, "partitions": partitions, "codec": codec, "now": now})
        found = topic(tx, name)
        assert found is not None
        tx.run_many("insert_partition", [(found.id, partition) for partition in range(found.partitions)])
    return found


def append(tx: Transaction, publications: Sequence[Publication], now: int) -> list[int]:
    """Write all records; their offsets, in the order given."""
    last: dict[tuple[int, int], int] = {}
    for (topic_id, partition), count in Counter((p.topic_id, p.partition) for p in publications).items():
        row = tx.one("take_offsets", {"count": count, "topic_id": topic_id, "partition": partition})
        if row is None:
            raise UnknownTopic(str(topic_id), "the topic was deleted meanwhile; nothing was written")
        last[topic_id, partition] = row[0] - count
    offsets = []
    for p in publications:
        place = p.topic_id, p.partition
        last[place] = offset = last[place] + 1
        offsets.append(offset)
    tx.run_many(
        "append",
        (
            (p.topic_id, p.partition, offset, p.key, p.payload, p.headers, now)
            for p, offset in zip(publications, offsets, strict=True)
        ),
    )
    return offsets


def fetch(tx: Transaction, cursors: Sequence[Cursor]) -> list[Fetched]:
    """What lies above each cursor; partitions without news cost nothing but their share of one statement a topic."""
    ends = {
        (topic_id, partition): end
        for topic_id in {cursor.topic_id for cursor in cursors}
        for partition, end in tx.run("ends", (topic_id,))
    }
    return [_read(tx, cursor, ends[cursor.topic_id, cursor.partition]) for cursor in cursors]


def _read(tx: Transaction, cursor: Cursor, end: int) -> Fetched:
    found: list[Record] = []
    if end <= cursor.after or cursor.limit_records <= 0:
        return Fetched(found, cursor.after)
    room = cursor.limit_bytes
    low = cursor.after
    for skip_low, skip_high in (*cursor.skip, (end + 1, end + 1)):
        rows = tx.run(
            "fetch",
            (
                cursor.topic_id,
                cursor.partition,
                low,
                skip_low,
                cursor.limit_records - len(found) + 1,
            ),
        )
        for row in rows:
            record = Record(*row)
            room -= record.size
            if len(found) >= cursor.limit_records or (found and room < 0):
                return Fetched(found, found[-1].offset)
            found.append(record)
        low = max(low, skip_high)
    return Fetched(found, end)


def topics(tx: Transaction) -> list[TopicStatus]:
    """All topics by name."""
    return [TopicStatus(*row) for row in tx.run("topics")]

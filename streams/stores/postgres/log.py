"""Topics and records in PostgreSQL: rows into arrays, arrays into rows."""

from collections.abc import Sequence
from typing import Any

from partition import SLOTS, slot_of
from streams.stores.postgres.session import Session
from streams.stores.rows import Publication, TopicRow, TopicStatus


async def topic(session: Session, name: str) -> TopicRow | None:
    """The topic's row, or None."""
    rows = await session.read("topic", name)
    return TopicRow(rows[0][0], name, rows[0][1], rows[0][2]) if rows else None


async def topics(session: Session) -> list[TopicStatus]:
    """All topics by name."""
    return [TopicStatus(*row) for row in await session.read("topics")]


def columns(publications: Sequence[Publication]) -> tuple[list[Any], ...]:
    """Topic ids, partitions, slots, keys, payloads and headers."""
    return (
        [p.topic_id for p in publications],
        [p.partition for p in publications],
        [slot(p) for p in publications],
        [p.key for p in publications],
        [p.payload for p in publications],
        [p.headers for p in publications],
    )


def slot(publication: Publication) -> int:
    """The slot whose lock a publication takes: its key's, or the one of its partition's records without a key."""
    return SLOTS + publication.partition if publication.key is None else slot_of(publication.key)

"""What is in a SQLite file, read by a connection that is not the app's."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple


class Stored(NamedTuple):
    """A record as another process finds it."""

    topic: str
    partition: int
    offset: int
    key: str | None
    payload: bytes
    headers: bytes | None


QUERY = """
SELECT name, partition, offset, key, payload, headers
FROM streams_records JOIN streams_topics USING (topic_id)
ORDER BY name, partition, offset
"""


def stored(path: Path) -> list[Stored]:
    """All records of all topics, in order."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return [Stored(*row) for row in connection.execute(QUERY)]


def payloads(path: Path) -> list[bytes]:
    """The payloads of all records, in order."""
    return [record.payload for record in stored(path)]

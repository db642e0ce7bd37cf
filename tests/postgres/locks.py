"""A server whose lock table is nearly full."""

from contextlib import suppress
from itertools import count

import asyncpg

from partition import slot_of


async def fill(connection: asyncpg.Connection, *, room: int) -> None:
    """Take locks until the server has room for so many more."""
    with suppress(asyncpg.OutOfMemoryError):
        for first in count(0, 50):
            await connection.execute("SELECT pg_advisory_lock(n) FROM generate_series($1::bigint, $1 + 49) AS n", first)
    await connection.execute("SELECT pg_advisory_unlock(n) FROM generate_series(0, $1::bigint) AS n", room)


def key_of_each_slot() -> list[str]:
    """As many keys as there are slots, none of which share one."""
    by_slot = {slot_of(key): key for key in map(str, range(60_000))}
    assert len(by_slot) == 4_096
    return list(by_slot.values())

"""Every key has the same slot and partition in SQL as in Python: they take the same locks and read the same places."""

import asyncpg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partition import SLOTS, partition_of, slot_of
from streams.stores.postgres.store import WRITE_BYTES, PostgresStore
from streams.stores.rows import TopicRow
from tests.postgres.transaction import record

keys = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200), max_size=50)


@settings(
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(keys, st.integers(1, SLOTS))
async def test_a_random_key_has_the_same_slot_and_partition_in_sql(
    somebody: asyncpg.Connection, keys: list[str], partitions: int
) -> None:
    rows = await somebody.fetch(
        "SELECT streams.slot_of(key), streams.slot_of(key) * $2 / 4096 FROM unnest($1::text[]) AS key", keys, partitions
    )
    assert [tuple(row) for row in rows] == [(slot_of(key), partition_of(key, partitions)) for key in keys]


async def test_whoever_holds_a_slot_is_found_at_its_partition(
    store: PostgresStore, shipments: TopicRow, somebody: asyncpg.Connection
) -> None:
    async with somebody.transaction():
        for key in ("a", "b", "c", "d", None):
            one = record(shipments, key)
            await store.within(somebody).append([one])
            found = {tuple(row[:2]) for row in await store._reading.read("holders")}
            assert (shipments.id, one.partition) in found


async def test_a_write_has_a_bound_in_bytes_and_leaves_out_what_is_above(
    store: PostgresStore, orders: TopicRow
) -> None:
    large = bytes(WRITE_BYTES // 2)
    assert await store.try_append([record(orders, key, large) for key in "abc"]) == [1, 2, None]
    assert await store.try_append([record(orders, key, 3 * large) for key in "ab"]) == [3, None]

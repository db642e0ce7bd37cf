"""What our transactions commit is durable, and waits for no lock for long, whatever is the default of the session."""

import asyncpg
import pytest

from streams.stores.rows import TopicRow

APPEND = "SELECT streams.append(ARRAY[{}], ARRAY[0], ARRAY[900], ARRAY['a'], ARRAY['x'::bytea], ARRAY[NULL::bytea])"
VERBS = {
    "append": APPEND,
    "release": "SELECT streams.release('{{}}', '{{}}', '{{}}', '{{}}')",
    "settle": "SELECT * FROM streams.settle(" + "'{{}}', " * 8 + "64, " + "'{{}}', " * 8 + "'[]', '[]', '[]')",
}


@pytest.mark.parametrize(
    ("given", "meant"), [("off", "on"), ("local", "on"), ("on", "on"), ("remote_apply", "remote_apply")]
)
@pytest.mark.parametrize("verb", VERBS)
async def test_a_verb_commits_durably_and_waits_for_no_lock_for_long(
    somebody: asyncpg.Connection, orders: TopicRow, verb: str, given: str, meant: str
) -> None:
    await somebody.execute(f"SET synchronous_commit = {given}; SET lock_timeout = '9s'")
    async with somebody.transaction():
        await somebody.fetch(VERBS[verb].format(orders.id))
        assert await somebody.fetchval("SHOW synchronous_commit") == meant
        assert await somebody.fetchval("SHOW lock_timeout") == "250ms"
    assert await somebody.fetchval("SHOW synchronous_commit") == given

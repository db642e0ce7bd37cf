"""Settings of a server, a database or a role that are not the defaults, and change nothing."""

from collections import defaultdict

import anyio
import asyncpg
import pytest

from streams import Context, Streams

SETTINGS = [
    "quote_all_identifiers = on",
    "standard_conforming_strings = off",
    "array_nulls = off",
    "bytea_output = 'escape'",
    "client_encoding = 'LATIN1'",
    "datestyle = 'German'",
    "timezone = 'Pacific/Kiritimati'",
    "search_path = 'pg_temp'",
    "lock_timeout = '1ms'",
    "statement_timeout = '5s'",
    "idle_in_transaction_session_timeout = '1s'",
    "default_transaction_deferrable = on",
    "enable_indexscan = off",
    "plan_cache_mode = 'force_custom_plan'",
    "client_min_messages = 'debug1'",
]


@pytest.fixture(params=SETTINGS)
async def url(request: pytest.FixtureRequest, database: str) -> str:
    """Of a fresh database with a setting of its own."""
    name = database.rpartition("/")[2]
    connection = await asyncpg.connect(database)
    await connection.execute(f"ALTER DATABASE {name} SET {request.param}")
    await connection.close()
    return database


async def works(app: Streams) -> None:
    """Publish in both ways, handle, and publish what was handled."""
    handled: dict[str | None, list[int]] = defaultdict(list)
    numbers = app.topic("numbers", int, partitions=4)
    copies = app.topic("copies", int, partitions=4)

    @numbers.subscribe(group="first")
    async def handle(number: int, ctx: Context) -> None:
        handled[ctx.key].append(number)
        ctx.publish(copies, ctx.key, number, headers={"von": "Zürich ☃"})

    async with app:
        await numbers.publish_many((f"Schlüssel-{number % 7}", number) for number in range(200))
        async with anyio.create_task_group() as tasks:
            for number in range(200, 250):
                tasks.start_soon(numbers.publish, f"Schlüssel-{number % 7}", number)
        with anyio.fail_after(30):
            await app.work(until_idle=True)
        assert {topic.topic: topic.records for topic in await app.admin.topics()} == {"copies": 250, "numbers": 250}
    assert all(numbers == sorted(numbers) for numbers in handled.values())
    assert sum(map(len, handled.values())) == 250


async def test_everything_works_under_other_defaults(url: str) -> None:
    await works(Streams(url))


@pytest.mark.parametrize("schema", ["shop", "streams_2", "streams_streams", "s"])
async def test_everything_works_in_a_schema_of_another_name(database: str, schema: str) -> None:
    await works(Streams(database, schema=schema))

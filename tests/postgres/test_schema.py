"""The schema: made once, by whoever may, on a database that we can work with."""

from collections.abc import Iterator

import anyio
import pytest

from streams import MigrationNeeded, SettingsError, StoreUnavailable, Streams
from streams.stores.postgres import schema
from streams.stores.postgres.store import PostgresStore
from streams.stores.postgres.url import parse
from streams.stores.statements import migrations
from tests.postgres.conftest import numbers
from tests.servers.server import Server


@pytest.fixture
def place(database: str) -> str:
    """Each test has a database of its own."""
    return database


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


@pytest.fixture
def role(place: str, server: Server) -> Iterator[str]:
    """The URL for a role that may do nothing but connect."""
    role = f"guest_{next(numbers)}"
    server.psql(f"CREATE ROLE {role} LOGIN PASSWORD 'secret-of-guest'")
    yield f"postgresql://{role}:secret-of-guest@{place.rpartition('@')[2]}"
    server.psql(f"DROP OWNED BY {role}", name_of(place))
    server.psql(f"DROP ROLE {role}")


async def test_several_that_come_at_once_make_it_once(place: str, server: Server) -> None:
    ids: set[int] = set()

    async def come() -> None:
        store = PostgresStore(parse(place))
        await store.open(migrate=True, create=True)
        ids.add((await store.ensure_topic("orders", 8, "json")).id)
        await store.ensure_group("billing", "orders", "earliest")
        assert len((await store.view([("billing", "orders")])).leases) == 8
        await store.close()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(come)
    assert len(ids) == 1
    applied = server.psql("SELECT number FROM streams.migrations ORDER BY number", name_of(place))
    assert applied.split() == [str(step.number) for step in migrations(schema.PACKAGE)]


async def test_a_role_that_may_not_make_it_is_told_who_can(role: str) -> None:
    with pytest.raises(MigrationNeeded, match="streams migrate") as caught:
        async with Streams(role):
            pass
    assert "secret-of-guest" not in str(caught.value)


async def test_nothing_is_made_by_who_was_told_never_to(place: str, server: Server) -> None:
    with pytest.raises(MigrationNeeded, match="streams migrate"):
        async with Streams(place, migrate="never"):
            pass
    assert server.psql("SELECT to_regnamespace('streams')", name_of(place)) == ""


async def test_a_role_that_may_use_it_publishes_and_works(place: str, role: str, server: Server) -> None:
    async with Streams(place) as owner:
        await owner.topic("orders", int, partitions=2).publish("a", 1)
        await owner.admin.groups()
    guest = role.partition("://")[2].partition(":")[0]
    server.psql(
        f"""
        GRANT USAGE ON SCHEMA streams TO {guest};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA streams TO {guest};
        GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA streams TO {guest};
        """,
        name_of(place),
    )
    app = Streams(role)
    orders = app.topic("orders", int, partitions=2)
    seen: list[int] = []

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        seen.append(number)

    async with app:
        await orders.publish("a", 2)
        await app.work(until_idle=True)
        assert seen == [1, 2]
    async with Streams(role) as app:
        others = app.topic("others", int)
        with pytest.raises(StoreUnavailable, match=r"permission denied.*grant it"):
            await others.publish("a", 1)


async def test_another_default_isolation_is_refused_with_the_sentence_that_repairs_it(
    place: str, server: Server
) -> None:
    server.psql(f"ALTER DATABASE {name_of(place)} SET default_transaction_isolation = 'repeatable read'")
    with pytest.raises(SettingsError, match=r"ALTER ROLE .* SET default_transaction_isolation = 'read committed'"):
        async with Streams(place):
            pass


async def test_a_wrong_password_is_not_in_the_message(role: str) -> None:
    with pytest.raises(SettingsError) as caught:
        async with Streams(role.replace("secret-of-guest", "secret-of-another")):
            pass
    assert "secret" not in str(caught.value)


async def test_nobody_there_says_where(place: str) -> None:
    url = f"postgresql://somebody:secret@127.0.0.1:1/{name_of(place)}"
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1") as caught:
        async with Streams(url, connect_seconds=1):
            pass
    assert "secret" not in str(caught.value)

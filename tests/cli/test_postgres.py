"""The commands on PostgreSQL: what differs from a file, and one way through all of them."""

import signal

import psutil
import pytest

from tests.cli.processes import Cli, Here, until
from tests.servers.server import Server

LISTINGS = "topics", "groups", "members", "dead"
NOBODY = "postgresql://shop:secret@127.0.0.1:1/shop"


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


def with_password(url: str, password: str) -> str:
    user, _, rest = url.removeprefix("postgresql://").partition(":")
    return f"postgresql://{user}:{password}@{rest.partition('@')[2]}"


def schemas_of(server: Server, url: str) -> list[str]:
    """Those that are not PostgreSQL's own."""
    select = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$|public$)' ORDER BY 1"
    return server.psql(select, name_of(url)).split()


def test_migrating_makes_the_schema_once(here: Here, server: Server, postgres: str) -> None:
    place = f"postgresql://{with_password(postgres, '***').removeprefix('postgresql://')}"
    assert here("migrate", "--url", postgres) == (0, "", f"{place}: the schema was brought up to date.\n")
    assert here("migrate", "--url", postgres) == (
        0,
        "",
        f"{place}: the schema is up to date, there was nothing to do.\n",
    )
    assert schemas_of(server, postgres) == ["streams"]


def test_looking_makes_nothing(here: Here, server: Server, postgres: str) -> None:
    for noun in LISTINGS:
        ended = here(noun, "--url", postgres)
        assert (ended.code, ended.out) == (1, "")
        assert "streams migrate" in ended.err
    assert schemas_of(server, postgres) == []


@pytest.mark.parametrize("schema", ["streams", "mine"])
def test_sql_applied_by_hand_counts_as_migrated(here: Here, server: Server, postgres: str, schema: str) -> None:
    printed = here("sql", "--url", "postgresql://", "--schema", schema)
    assert (printed.code, printed.err) == (0, "")
    server.psql(printed.out, name_of(postgres))
    options = "--url", postgres, "--schema", schema
    assert here("migrate", *options).err.endswith("there was nothing to do.\n")
    assert here("topics", "--json", *options).json == []
    assert schemas_of(server, postgres) == [schema]


def test_sql_tells_the_migrations_apart(here: Here) -> None:
    steps = here("sql", "--url", "postgresql://shop:secret@db/shop", "--schema", "mine", "--json").json
    assert [step["name"] for step in steps[:2]] == ["path", "functions"]
    assert 'CREATE TABLE "mine".topics' in steps[0]["sql"]


def test_a_record_goes_all_the_way(shop: Cli, postgres: str) -> None:
    shop.environment["STREAMS_URL"] = postgres
    worker = shop.start("worker", "shop:app")
    worker.says("acquired")
    receipt = shop("publish", "orders", "customer-7", '{"total": 1}', "--json").json
    assert (receipt["topic"], receipt["offset"]) == ("orders", 1)
    lines = b'{"key": "customer-7", "payload": {"total": 2}}\n' * 3
    assert shop("publish", "orders", "-", "--json", stdin=lines).json == {"topic": "orders", "written": 3}
    until(lambda: sum(group["lag"] for group in shop("groups", "--json").json) == 0)
    assert [topic["records"] for topic in shop("topics", "--json").json] == [4]
    (member,) = shop("members", "--json").json
    assert (member["pid"], member["groups"]) == (worker.process.pid, ["audit", "billing"])
    assert shop("dead", "--json").json == []
    worker.send(signal.SIGTERM)
    ended = worker.ended()
    assert ended.code == 0
    assert ended.out.count("billed {'total': 2}") == 3
    assert shop("members", "--json").json == []


# What cannot be reached


@pytest.mark.parametrize("command", [*LISTINGS, "migrate"])
def test_a_wrong_password_is_one_line_that_does_not_show_it(here: Here, postgres: str, command: str) -> None:
    ended = here(command, "--url", with_password(postgres, "open-sesame"))
    assert (ended.code, ended.out) == (1, "")
    assert "password authentication failed" in ended.err
    assert "open-sesame" not in ended.err
    assert ended.err.count("\n") == 1


def test_a_server_that_is_not_there_is_one_line(here: Here) -> None:
    for command in (*LISTINGS, "migrate"):
        ended = here(command, "--url", NOBODY, STREAMS_CONNECT_SECONDS="0.2")
        assert (ended.code, ended.out) == (1, "")
        assert "PostgreSQL at 127.0.0.1:1/shop: " in ended.err
        assert "secret" not in ended.err
        assert ended.err.count("\n") == 1


def test_a_worker_does_not_wait_for_another_password(shop: Cli, postgres: str) -> None:
    ended = shop("worker", "shop:app", "--url", with_password(postgres, "open-sesame"))
    assert ended.code == 1
    assert "password authentication failed" in ended.err
    assert "open-sesame" not in ended.err


def test_a_worker_waits_for_its_server(shop: Cli) -> None:
    worker = shop.start("worker", "shop:app", "--url", NOBODY)
    worker.says("waits for its database, trying again: PostgreSQL at 127.0.0.1:1/shop")
    worker.send(signal.SIGTERM)
    ended = worker.ended()
    assert ended.code == 0
    assert "secret" not in ended.err


def test_a_worker_waits_until_its_database_is_made(shop: Cli, server: Server) -> None:
    url = server.url("made_later")
    worker = shop.start("worker", "shop:app", "--url", url)
    worker.says("waits for its database, trying again: PostgreSQL at ")
    server.psql("CREATE DATABASE made_later TEMPLATE template0")
    try:
        worker.says("acquired")
    finally:
        worker.end()
        server.drop_database(url)


# The demo


def test_nothing_is_lost_or_reordered_when_a_worker_is_killed(cli: Cli, postgres: str) -> None:
    few = "--records", "400", "--keys", "20"
    ended = cli("demo", *few, "--url", postgres, "--json", STREAMS_LEASE_SECONDS="2")
    assert ended.code == 0, ended.err
    result = ended.json
    assert (result["handled"], result["killed"], result["lost"], result["out_of_order"]) == (400, 1, 0, 0)
    (topic,) = cli("topics", "--json", "--url", postgres).json
    assert (topic["topic"][:5], topic["records"]) == ("demo-", 400)


@pytest.mark.parametrize(
    ("command", "words"), [(("demo",), "is killed"), (("bench", "--only", "idle"), "left alone")], ids=["demo", "bench"]
)
def test_workers_of_ours_do_not_show_a_password_to_everybody(
    cli: Cli, postgres: str, command: tuple[str, ...], words: str
) -> None:
    started = cli.start(*command, "--url", postgres, STREAMS_LEASE_SECONDS="2")
    started.says(words)
    password = postgres.split(":")[2].partition("@")[0]
    members = cli("members", "--json", "--url", postgres).json
    assert members
    for member in members:
        if psutil.pid_exists(member["pid"]):
            assert password not in " ".join(psutil.Process(member["pid"]).cmdline())

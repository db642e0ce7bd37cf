"""`streams topics`, `groups`, `members`, `keys` and `dead`: their JSON, their tables, and that they only look."""

import os
import re
from datetime import datetime, timedelta
from pathlib import Path

import anyio
import pytest

from partition import partition_of, slot_of
from streams import Retry, Streams
from tests.cli.processes import Cli, Here

MICROS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")

LISTINGS = ["topics", "groups", "members", "keys", "dead"]


@pytest.fixture
def empty(here: Here) -> Here:
    """A database without topics."""
    assert here("migrate").code == 0
    return here


def test_topics_have_partitions_codec_and_records(cli: Cli, database: Path) -> None:
    assert cli("topics", "--json").json == [
        {"topic": "blobs", "partitions": 1, "codec": "bytes", "records": 0},
        {"topic": "orders", "partitions": 2, "codec": "json", "records": 3},
        {"topic": "packed", "partitions": 1, "codec": "msgpack", "records": 0},
    ]


def test_groups_have_a_position_and_a_lag_in_each_partition(cli: Cli, database: Path) -> None:
    cli("publish", "orders", "customer-7", '{"total": 3}')
    (group,) = cli("groups", "--json").json
    partitions = group.pop("partitions")
    assert group == {"group": "billing", "topic": "orders", "lag": 1, "parked": 0}
    assert [list(partition) for partition in partitions] == [
        ["partition", "owner", "epoch", "position", "end", "lag", "parked"]
    ] * 2
    assert [partition["partition"] for partition in partitions] == [0, 1]
    assert sum(partition["position"] for partition in partitions) == 3
    assert sum(partition["end"] for partition in partitions) == 4
    assert sum(partition["lag"] for partition in partitions) == 1
    assert all(partition["owner"] is None and partition["epoch"] == 1 for partition in partitions)


def test_members_are_those_alive_and_own_partitions(shop: Cli) -> None:
    worker = shop.start("worker", "shop:app")
    worker.says("acquired")
    (member,) = shop("members", "--json").json
    assert list(member) == ["member", "host", "pid", "groups", "alive_until"]
    assert (member["pid"], member["groups"]) == (worker.process.pid, ["audit", "billing"])
    assert MICROS.fullmatch(member["alive_until"])
    owners = {partition["owner"] for group in shop("groups", "--json").json for partition in group["partitions"]}
    assert owners == {member["member"]}
    assert member["member"] in shop("members").out


def test_dead_letters_have_all_that_an_operator_wants_to_know(cli: Cli, database: Path) -> None:
    (letter,) = cli("dead", "--json").json
    assert MICROS.fullmatch(letter.pop("published_at"))
    assert MICROS.fullmatch(letter.pop("died_at"))
    assert "DeadLetter" in letter.pop("traceback")
    assert letter == {
        "group": "billing",
        "topic": "orders",
        "partition": letter["partition"],
        "offset": letter["offset"],
        "key": "customer-7",
        "attempts": 1,
        "error": "DeadLetter: negative total",
        "cause": "rejected",
        "headers": {"from": "shop"},
        "payload": '{"total":-1}',
        "payload_base64": None,
    }


def test_keys_are_those_that_are_failing(here: Here, tmp_path: Path) -> None:
    app = Streams(f"sqlite:///{tmp_path}/streams.db")
    orders = app.topic("orders", int, partitions=1)
    failed = anyio.Event()

    @orders.subscribe(group="billing", retry=Retry(wait=lambda _: 3600.0))
    async def bill(order: int) -> None:
        if order == 2:
            failed.set()
            raise ValueError("no such customer")

    async def fail() -> None:
        async with app:
            await orders.publish_many([("a", 1), ("b", 2), ("b", 3), ("c", 4)])
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(app.work)
                await failed.wait()
                with anyio.fail_after(10):
                    while not await app.admin.keys():  # noqa: ASYNC110 - the database sets no event
                        await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()

    anyio.run(fail)
    (key,) = here("keys", "--json").json
    since, until = (datetime.fromisoformat(key.pop(name)) for name in ("since", "until"))
    assert timedelta(seconds=3599) < until - since < timedelta(seconds=3601)
    assert key == {
        "group": "billing",
        "topic": "orders",
        "partition": 0,
        "key": "b",
        "state": "retrying",
        "attempts": 1,
        "followers": 0,
        "error": "ValueError: no such customer",
    }
    assert "no such customer" in here("keys").out
    found = here("where", "orders", "b", "--json").json
    (group,) = found.pop("groups")
    assert found == {"topic": "orders", "key": "b", "slot": slot_of("b"), "partition": 0}
    assert datetime.fromisoformat(group.pop("until")) == until
    assert group == {
        "group": "billing",
        "owner": None,
        "epoch": 1,
        "position": 1,
        "end": 4,
        "state": "retrying",
        "attempts": 1,
        "error": "ValueError: no such customer",
    }
    (healthy,) = here("where", "orders", "c", "--json").json["groups"]
    assert (healthy["state"], healthy["error"]) == (None, None)


def test_where_says_in_which_partition_a_key_lives_and_who_has_it(shop: Cli) -> None:
    worker = shop.start("worker", "shop:app")
    worker.says("acquired")
    found = shop("where", "orders", "customer-7", "--json").json
    (partitions,) = [row["partitions"] for row in shop("topics", "--json").json if row["topic"] == "orders"]
    assert found["partition"] == partition_of("customer-7", partitions)
    assert found["slot"] == slot_of("customer-7")
    (member,) = shop("members", "--json").json
    assert {group["owner"] for group in found["groups"]} == {member["member"]}
    assert [group["group"] for group in found["groups"]] == member["groups"]
    ended = shop("where", "orders", "customer-7")
    assert member["member"] in ended.out
    assert ended.err == f"orders/{found['partition']}, slot {found['slot']}\n"


def test_where_knows_no_topic_that_does_not_exist_and_no_key_that_cannot(here: Here, database: Path) -> None:
    unknown, never = here("where", "nothing", "key"), here("where", "orders", "x" * 1_025)
    assert (unknown.code, never.code) == (1, 1)
    assert "'nothing' is not in the database" in unknown.err
    assert "1,024" in never.err


@pytest.mark.parametrize("noun", LISTINGS)
def test_a_noun_alone_lists(here: Here, database: Path, noun: str) -> None:
    alone, listed = here(noun, "--json"), here(noun, "list", "--json")
    assert alone == listed
    assert alone.code == 0
    assert not alone.err


@pytest.mark.parametrize("noun", LISTINGS)
def test_looking_makes_nothing(cli: Cli, noun: str) -> None:
    ended = cli(noun)
    assert (ended.code, ended.out) == (1, "")
    assert "streams migrate" in ended.err
    assert ended.err.count("\n") == 1
    assert not os.listdir(cli.folder)


@pytest.mark.parametrize("noun", LISTINGS)
def test_looking_does_not_migrate(here: Here, tmp_path: Path, noun: str) -> None:
    path = tmp_path / "streams.db"
    path.touch()
    ended = here(noun, STREAMS_MIGRATE="auto")
    assert (ended.code, ended.out) == (1, "")
    assert "streams migrate" in ended.err
    assert path.stat().st_size == 0


@pytest.mark.parametrize("noun", LISTINGS)
def test_an_empty_list_is_an_empty_list(empty: Here, noun: str) -> None:
    assert empty(noun, "--json") == (0, "[]\n", "")
    table = empty(noun)
    assert table.code == 0
    assert table.out.count("\n") == 1
    assert table.err.count("\n") == 1


def test_a_flag_beats_the_environment(cli: Cli, database: Path) -> None:
    database.rename(cli.folder / "other.db")
    nowhere, other = "sqlite:///nowhere.db", "sqlite:///other.db"
    assert cli("topics", STREAMS_URL=nowhere).code == 1
    assert cli("topics", STREAMS_URL=other).code == 0
    assert cli("topics", "--url", other, STREAMS_URL=nowhere).code == 0


def test_tables_are_whole_lines_for_whoever_reads_a_pipe(cli: Cli, database: Path) -> None:
    dead = [line.split() for line in cli("dead", COLUMNS="40").out.splitlines()]
    assert [line[:2] for line in dead] == [["GROUP", "TOPIC"], ["billing", "orders"]]
    assert dead[1][-3:] == ["DeadLetter:", "negative", "total"]
    partitions = [line.split() for line in cli("groups", "--partitions", COLUMNS="40").out.splitlines()]
    assert [line[:5] for line in partitions[1:]] == [["billing", "orders", number, "-", "1"] for number in "01"]
    summary = [line.split() for line in cli("groups", COLUMNS="40").out.splitlines()]
    assert summary[1:] == [["billing", "orders", "2", "0", "0", "0", "0"]]

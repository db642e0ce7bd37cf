"""`streams publish`: one record, and many from stdin."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from partition import partition_of
from tests.cli.processes import Cli, Here


def rows(path: Path, topic: str) -> list[tuple[Any, ...]]:
    """(key, payload, headers) of a topic's records, partition by partition."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT key, payload, headers FROM streams_records JOIN streams_topics USING (topic_id) "
            "WHERE name = ? ORDER BY partition, offset",
            (topic,),
        ).fetchall()


def line(key: object, payload: object, **more: object) -> str:
    return json.dumps({"key": key, "payload": payload, **more}) + "\n"


# One record


def test_a_receipt_says_where_the_record_is(cli: Cli, database: Path) -> None:
    ended = cli("publish", "orders", "customer-9", '{"total": 5}', "--json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.json == {"topic": "orders", "partition": 0, "offset": 3}
    again = cli("publish", "orders", "customer-9", '{"total": 6}')
    assert again.out.split()[-3:] == ["orders", "0", "4"]
    assert partition_of("customer-9", 2) == 0


def test_json_is_stored_compact_and_otherwise_as_it_was_written(cli: Cli, database: Path) -> None:
    cli("publish", "orders", "k", '{"total" : 12345678901234567890123,\n "rate": 1.10, "name": "é"}')
    stored = '{"total":12345678901234567890123,"rate":1.10,"name":"é"}'.encode()
    assert ("k", stored, None) in rows(database, "orders")


def test_text_for_a_topic_of_bytes_is_stored_as_utf8(cli: Cli, database: Path) -> None:
    assert cli("publish", "blobs", "k", "{not json é").code == 0
    assert rows(database, "blobs") == [("k", "{not json é".encode(), None)]


def test_json_for_a_topic_of_msgpack_is_converted(cli: Cli, database: Path) -> None:
    assert cli("publish", "packed", "k", '{"total": [1, null]}').code == 0
    assert msgspec.msgpack.decode(rows(database, "packed")[0][1]) == {"total": [1, None]}


def test_headers_are_stored(cli: Cli, database: Path) -> None:
    assert cli("publish", "blobs", "k", "x", "--header", "a=b=c", "--header", "empty=").code == 0
    assert json.loads(rows(database, "blobs")[0][2]) == {"a": "b=c", "empty": ""}


@pytest.mark.parametrize(("key", "payload"), [("-", "1"), ("-5", "-7"), ("", '""')])
def test_keys_and_payloads_may_begin_with_a_hyphen_or_be_empty(
    here: Here, database: Path, key: str, payload: str
) -> None:
    assert here("publish", "orders", key, payload).code == 0
    assert (key, payload.encode(), None) in rows(database, "orders")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("orders", "k", "{total"), "not valid JSON"),
        (("orders", "k", "word"), "not valid JSON"),
        (("packed", "k", ""), "not valid JSON"),
        (("orders", "k" * 1025, "1"), "at most 1,024 bytes"),
        (("orders", "k", "1", "--header", "streams-x=1"), "may not be empty nor start with"),
        (("orders", "k", '"' + "x" * 100_000 + '"', "--header", "=1"), "may not be empty"),
        (("bogus", "k", "1"), "a program that declares it makes it on first use"),
    ],
)
def test_what_cannot_be_published_is_one_line_and_not_written(
    here: Here, database: Path, arguments: tuple[str, ...], words: str
) -> None:
    ended = here("publish", *arguments)
    assert (ended.code, ended.out) == (1, "")
    assert words in ended.err
    assert ended.err.count("\n") == 1
    assert len(rows(database, "orders")) == 3


def test_publishing_makes_no_database(cli: Cli) -> None:
    ended = cli("publish", "orders", "k", "1")
    assert ended.code == 1
    assert "streams migrate" in ended.err
    assert not list(cli.folder.iterdir())


# Many


def test_lines_are_published_in_order(cli: Cli, database: Path) -> None:
    lines = [line(f"key-{n % 7}", {"n": n}) for n in range(2_500)]
    ended = cli("publish", "orders", "-", stdin="".join(lines).encode())
    assert ended == (0, "", "2,500 records written to orders.\n")
    published = [(key, json.loads(payload)["n"]) for key, payload, _ in rows(database, "orders") if key[:3] == "key"]
    for key in range(7):
        numbers = [n for name, n in published if name == f"key-{key}"]
        assert numbers == list(range(key, 2_500, 7))


def test_how_many_were_written_is_data(cli: Cli, database: Path) -> None:
    text = line("a", 1) + "\n" + line(7, 2) + line(None, 3).strip()
    ended = cli("publish", "orders", "-", "--json", stdin=text.encode())
    assert ended.json == {"topic": "orders", "written": 3}
    assert {(key, payload) for key, payload, _ in rows(database, "orders")} >= {("a", b"1"), ("7", b"2"), (None, b"3")}


def test_a_lines_own_headers_go_before_those_of_all(cli: Cli, database: Path) -> None:
    stdin = line("a", "x") + line("b", "y", headers={"from": "line"})
    assert cli("publish", "blobs", "-", "--header", "from=all", "--header", "x=y", stdin=stdin.encode()).code == 0
    headers = {key: json.loads(headers) for key, _, headers in rows(database, "blobs")}
    assert headers == {"a": {"from": "all", "x": "y"}, "b": {"from": "line", "x": "y"}}


@pytest.mark.parametrize(
    ("topic", "bad", "words"),
    [
        ("orders", "nonsense\n", "malformed"),
        ("orders", '{"payload": 1}\n', "missing required field `key`"),
        ("orders", '{"key": "a"}\n', "missing required field `payload`"),
        ("orders", line("a", 1, header={}), "unknown field `header`"),
        ("orders", line(True, 1), "got `bool`"),
        ("orders", line("\0", 1), "NUL"),
        ("orders", line("a", 1, headers={"n": 1}), "headers"),
        ("orders", line("a", 1, headers={"streams-n": "1"}), "start with"),
        ("orders", line("a", "x" * 1_100_000), "the limit is 1,048,576"),
        ("orders", '{"key": "a", "payload": "\udcff"}\n', "JSON"),
        ("blobs", line("a", 1), "is a JSON string here"),
    ],
)
def test_a_bad_line_stops_after_all_before_it_were_written(
    here: Here, database: Path, topic: str, bad: str, words: str
) -> None:
    before, after = "".join(line("good", "x") for _ in range(3)), line("good", "y")
    ended = here("publish", topic, "-", stdin=(before + bad + after).encode("utf-8", "surrogateescape"))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("error: line 4: ")
    assert ended.err.endswith("; the 3 records before it were written\n")
    assert words in ended.err
    assert [payload.strip(b'"') for key, payload, _ in rows(database, topic) if key == "good"] == [b"x"] * 3


def test_nothing_on_stdin_is_nothing_written(cli: Cli, database: Path) -> None:
    assert cli("publish", "orders", "-") == (0, "", "0 records written to orders.\n")


def test_lines_come_from_a_file_as_well(cli: Cli, database: Path) -> None:
    path = cli.write("lines.jsonl", line("a", 1) * 10)
    with path.open("rb") as file:
        assert cli("publish", "orders", "-", stdin=file) == (0, "", "10 records written to orders.\n")

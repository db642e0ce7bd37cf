"""`streams dead`: which ones are listed, shown whole, and removed."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from streams import DeadLetter, Retry, Streams
from streams.cli.since import moment
from streams.cli.usage import UsageError
from tests.cli.processes import Here
from tests.cli.test_listing import MICROS

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def dead(here: Here, tmp_path: Path) -> Here:
    """A database in which two groups gave up on three records each."""
    app = Streams(f"sqlite:///{tmp_path}/streams.db")
    orders = app.topic("orders", str, partitions=1)
    blobs = app.topic("blobs", bytes, partitions=1)

    @orders.subscribe(group="billing", retry=Retry(attempts=1))
    async def bill(order: str) -> None:
        raise ValueError(order)

    @blobs.subscribe(group="audit")
    async def audit(blob: bytes) -> None:
        raise DeadLetter("too dark")

    async def fill() -> None:
        async with app:
            for number in range(3):
                await orders.publish(f"customer-{number}", f"order {number}", headers={"from": "shop"})
                await blobs.publish(None, b"\xff%d" % number)
            await app.work(until_idle=True)

    anyio.run(fill)
    return here


def places(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return sorted((row["group"], row["offset"]) for row in rows)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("", [("audit", 1), ("audit", 2), ("audit", 3), ("billing", 1), ("billing", 2), ("billing", 3)]),
        ("--group billing", [("billing", 1), ("billing", 2), ("billing", 3)]),
        ("--topic blobs --offset 2", [("audit", 2)]),
        ("--key customer-1", [("billing", 2)]),
        ("--error dark --partition 0", [("audit", 1), ("audit", 2), ("audit", 3)]),
        ("--since 1h --offset 3", [("audit", 3), ("billing", 3)]),
        ("--since 2100-01-01", []),
    ],
)
def test_those_are_listed_shown_and_discarded_to_which_all_applies(
    dead: Here, words: str, meant: list[tuple[str, int]]
) -> None:
    listed, shown = dead("dead", *words.split(), "--json"), dead("dead", "show", *words.split(), "--json")
    assert places(listed.json) == meant
    assert listed.json == shown.json
    everything = dead("dead", "--json").json
    verb = "discard" if words else "purge"
    for flags in ["--dry-run"], ["--dry-run", "--json"]:
        assert dead("dead", verb, *words.split(), *flags).code == 0
    assert dead("dead", "--json").json == everything, "a dry run only lists"
    ended = dead("dead", verb, *words.split(), "--json")
    assert ended.json == {"discarded": len(meant)}
    assert dead("dead", "--json").json == [one for one in everything if one not in listed.json]


def test_a_dead_letter_is_shown_whole(dead: Here) -> None:
    ended = dead("dead", "show", "--group", "billing", "--offset", "1")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == "orders/0 offset 1, group billing"
    assert lines[1] == "  key        customer-0"
    assert re.fullmatch(rf"  published  {MICROS.pattern}", lines[2])
    assert re.fullmatch(rf"  died       {MICROS.pattern}, exhausted after 1 attempts", lines[3])
    assert lines[4:8] == [
        "  header     from: shop",
        '  payload    "order 0"',
        "  error      ValueError: order 0",
        "    Traceback (most recent call last):",
    ]
    assert "(base64)" in dead("dead", "show", "--group", "audit", "--offset", "1").out


def test_what_a_record_brings_along_does_not_speak_to_the_terminal(here: Here, tmp_path: Path) -> None:
    app = Streams(f"sqlite:///{tmp_path}/streams.db")
    orders = app.topic("orders", bytes, partitions=1)

    @orders.subscribe(group="billing")
    async def bill(order: bytes) -> None:
        raise DeadLetter("\x1b[31mred\nand more")

    async def fill() -> None:
        async with app:
            await orders.publish("\x1b[2J", b"\x1b[2J\r\n", headers={"a": "\x1b]0;title\x07"})
            await app.work(until_idle=True)

    anyio.run(fill)
    shown = here("dead", "show").out
    assert "\x1b" not in shown
    assert "\\x1b[2J" in shown
    assert shown.count("orders/0 offset 1") == 1


def test_to_discard_everything_has_another_name(dead: Here) -> None:
    ended = dead("dead", "discard")
    assert ended.code == 2
    assert "purge" in ended.err
    assert len(dead("dead", "--json").json) == 6
    assert dead("dead", "purge", "--group", "audit").err == "3 dead letters were discarded.\n"
    assert dead("dead", "discard", "--offset", "1").err == "1 dead letter was discarded.\n"
    assert dead("dead", "purge").err == "2 dead letters were discarded.\n"
    assert dead("dead").err == "There are no dead letters.\n"
    assert dead("dead", "show", "--key", "nobody").err == "There are no such dead letters.\n"


def test_a_moment_that_is_none_is_refused(dead: Here) -> None:
    ended = dead("dead", "--since", "yesterday")
    assert ended.code == 2
    assert "--since yesterday" in ended.err


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("90s", NOW - timedelta(seconds=90)),
        ("1.5h", NOW - timedelta(hours=1.5)),
        ("15m", NOW - timedelta(minutes=15)),
        ("7d", NOW - timedelta(days=7)),
        ("2w", NOW - timedelta(weeks=2)),
        ("2026-02-01", datetime(2026, 2, 1, tzinfo=UTC)),
        ("2026-02-01T10:00+02:00", datetime(2026, 2, 1, 8, tzinfo=UTC)),
        ("2026-02-01T10:00:00.5Z", datetime(2026, 2, 1, 10, microsecond=500_000, tzinfo=UTC)),
    ],
)
def test_a_moment_is_an_age_or_a_time(text: str, meant: datetime) -> None:
    assert moment(text, NOW) == meant


@pytest.mark.parametrize("text", ["", "h", "-1h", "99999999w", "12", "2026-13-01", "1y"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        moment(text, NOW)

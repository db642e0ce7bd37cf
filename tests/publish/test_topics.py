"""Declaring topics: names, numbers and types are checked at once, against the database when the topic is first used."""

import re
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from streams import InvalidName, SettingsError, Streams, TopicMismatch, UnknownTopic
from tests.publish.stored import stored

GOOD_NAMES = ["a", "7", "orders", "Orders.v2", "a-b_c.d", "a" * 128, "0__", "a__b"]
BAD_NAMES = [
    "",
    "a" * 129,
    "_orders",
    "__orders",
    ".orders",
    "-orders",
    "or ders",
    "orders\n",
    "órders",
    "заказы",
    "a/b",
    "a:b",
    "a\0",
    "\ud800",
    None,
    7,
    b"orders",
]


@pytest.fixture
def app() -> Streams:
    return Streams("memory://")


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_name_has_letters_digits_dots_dashes_and_underscores(app: Streams, name: str) -> None:
    topic = app.topic(name, int)
    assert topic.name == name
    app.subscribe(topic, group=name)


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_another_name_of_a_topic_is_refused(app: Streams, name: Any) -> None:
    with pytest.raises(InvalidName, match=f"topic {re.escape(repr(name))}: a name has 1 to 128 of"):
        app.topic(name, int)


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_another_name_of_a_group_is_refused(app: Streams, name: Any) -> None:
    async def handle(number: int) -> None: ...

    with pytest.raises(InvalidName, match=f"group {re.escape(repr(name))}: a name has 1 to 128 of"):
        app.topic("orders", int).subscribe(group=name)(handle)


@pytest.mark.parametrize("partitions", [1, 2, 4096])
def test_a_topic_has_1_to_4096_partitions(app: Streams, partitions: int) -> None:
    assert app.topic("orders", int, partitions=partitions).partitions == partitions


@pytest.mark.parametrize("partitions", [0, -1, 4097, 1.0, "8", True, None])
def test_another_number_of_partitions_is_refused(app: Streams, partitions: Any) -> None:
    with pytest.raises(SettingsError, match=f"'orders': partitions={partitions!r} is not a number from 1 to 4096"):
        app.topic("orders", int, partitions=partitions)


@pytest.mark.parametrize("size", [0, -1, 1.5, "8", True, None, 1 << 30])
def test_another_max_payload_than_what_a_database_takes_is_refused(app: Streams, size: Any) -> None:
    with pytest.raises(SettingsError, match=f"'orders': max_payload={size!r} is not a number of bytes"):
        app.topic("orders", int, max_payload=size)


@pytest.mark.parametrize("codec", ["yaml", "", "JSON", 7])
def test_an_unknown_codec_is_refused(app: Streams, codec: Any) -> None:
    with pytest.raises(SettingsError, match=f"codec={codec!r} is not one of 'json', 'msgpack', 'bytes'"):
        app.topic("orders", int, codec=codec)


@pytest.mark.parametrize(("type_", "codec"), [(bytes, "json"), (bytes, "msgpack"), (str, "bytes"), (Any, "bytes")])
def test_bytes_and_the_codec_bytes_belong_together(app: Streams, type_: Any, codec: Any) -> None:
    with pytest.raises(SettingsError, match="belong together"):
        app.topic("orders", type_, codec=codec)


@pytest.mark.parametrize("type_", [str | UUID, "Order", 7, dict | list | tuple, int | Fraction])
def test_a_type_that_cannot_be_decoded_is_refused(app: Streams, type_: Any) -> None:
    with pytest.raises(SettingsError, match=r"'orders': payloads of .* cannot be decoded"):
        app.topic("orders", type_)


def test_a_topic_is_declared_once(app: Streams) -> None:
    app.topic("orders", int)
    with pytest.raises(SettingsError, match="'orders' is declared twice"):
        app.topic("orders", int)


def test_a_refused_declaration_leaves_the_name_free(app: Streams) -> None:
    with pytest.raises(SettingsError):
        app.topic("orders", int, partitions=0)
    assert app.topic("orders", int)


def test_a_topic_says_what_it_is(app: Streams) -> None:
    assert repr(app.topic("orders", int, codec="msgpack")) == "<Topic 'orders', 8 partitions, msgpack>"


async def test_an_undeclared_topic_is_an_error_that_lists_the_declared(app: Streams) -> None:
    app.topic("orders", int)
    app.topic("clicks", int)
    with pytest.raises(UnknownTopic, match=r"'order' is not declared in this app \(declared: clicks, orders\)") as lost:
        async with app:
            await app.publish("order", "a", 1)
    assert lost.value.topic == "order"
    with pytest.raises(UnknownTopic):
        app.subscribe("order", group="billing")


async def test_a_topic_of_another_app_is_unknown_also_by_the_same_name(app: Streams) -> None:
    theirs = Streams("memory://").topic("orders", int)
    app.topic("orders", int)
    with pytest.raises(UnknownTopic, match="'orders' is not declared in this app"):
        app.subscribe(theirs, group="billing")
    async with app:
        for publish in (app.publish(theirs, "a", 1), app.publish_many(theirs, [("a", 1)])):
            with pytest.raises(UnknownTopic):
                await publish
        assert await app.admin.topics() == []


@pytest.mark.parametrize(
    ("declared", "setting", "code", "database"),
    [
        ({"partitions": 16}, "partitions", 16, 8),
        ({"codec": "msgpack"}, "codec", "msgpack", "json"),
    ],
)
async def test_the_databases_topic_is_the_truth(
    url: str, path: Path, declared: dict[str, Any], setting: str, code: object, database: object
) -> None:
    async with Streams(url) as app:
        await app.topic("orders", int).publish("a", 1)
    async with Streams(url) as other:
        topic = other.topic("orders", int, **declared)
        with pytest.raises(TopicMismatch) as refused:
            await topic.publish("a", 2)
    assert f"the code says {setting}={code!r}, the database says {setting}={database!r}" in str(refused.value)
    assert (refused.value.topic, refused.value.setting) == ("orders", setting)
    assert (refused.value.code, refused.value.database) == (code, database)
    assert [record.payload for record in stored(path)] == [b"1"]


async def test_a_worker_refuses_a_topic_that_differs(url: str) -> None:
    async with Streams(url) as app:
        await app.topic("orders", int).publish("a", 1)
    other = Streams(url)

    @other.topic("orders", int, partitions=2).subscribe(group="billing")
    async def handle(number: int) -> None: ...

    with pytest.raises(TopicMismatch):
        await other.work(until_idle=True)


async def test_a_topic_may_be_declared_while_the_app_is_entered(app: Streams) -> None:
    async with app:
        topic = app.topic("late", int)
        assert (await topic.publish("a", 1)).offset == 1


async def test_a_topic_is_made_when_it_is_first_used(app: Streams) -> None:
    topic = app.topic("orders", int, partitions=3)
    async with app:
        assert await app.admin.topics() == []
        await topic.publish("a", 1)
        (status,) = await app.admin.topics()
    assert (status.topic, status.partitions, status.codec, status.records) == ("orders", 3, "json", 1)

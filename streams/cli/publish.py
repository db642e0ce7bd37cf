"""`streams publish`: one record from its arguments, or many from JSON lines on stdin."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import anyio
from cyclopts import Parameter

from streams import Streams
from streams.cli.lines import Lines
from streams.cli.options import DATABASE, LOGGING, Database, Json, Logging
from streams.cli.payload import TYPES, from_argument
from streams.cli.progress import reading
from streams.cli.terminal import fail, print_json, print_table, say
from streams.cli.usage import UsageError
from streams.errors import PublishFailed, PublishUncertain, TopicMismatch, UnknownTopic
from streams.topic import Topic

STDIN = "-"


def publish(
    topic: Annotated[str, Parameter(help="A topic that exists.")],
    key: Annotated[str, Parameter(help="What order is kept within; or - for JSON lines.", allow_leading_hyphen=True)],
    payload: Annotated[
        str | None, Parameter(help="JSON, or text for a topic of bytes.", allow_leading_hyphen=True)
    ] = None,
    /,
    *,
    header: Annotated[
        tuple[str, ...],
        Parameter(name="--header", negative="", show_default=False, metavar="NAME=VALUE", help="May be repeated."),
    ] = (),
    database: Database = DATABASE,
    as_json: Json = False,
    logging: Logging = LOGGING,
) -> int:
    """Publish a record, or many from JSON lines on stdin.

    With - for the key and no payload, each line of stdin is one: {"key": …, "payload": …, "headers": {…}}. A key that
    is null asks for no order. It stops at the first bad line; those before it are written.
    """
    logging.set_up()
    headers = _headers(header)
    if payload is not None:
        return anyio.run(_publish_one, database, topic, key, payload, headers, as_json)
    if key != STDIN:
        raise UsageError(f"there is no payload; or read JSON lines from stdin: streams publish {topic} {STDIN}")
    return anyio.run(_publish_lines, database, topic, headers, as_json)


def _headers(given: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or name in headers:
            raise UsageError(f"--header {one}: write NAME=VALUE, and each name once")
        headers[name] = value
    return headers


async def _publish_one(
    database: Database, name: str, key: str, text: str, headers: Mapping[str, str], as_json: bool
) -> int:
    async with database.app(migrate="never") as app:
        topic = await _declare(app, name)
        receipt = await topic.publish(key, from_argument(text, topic.codec.name), headers=headers)
    if as_json:
        print_json(receipt._asdict())
    else:
        print_table(receipt._fields, [receipt])
    return 0


async def _publish_lines(database: Database, name: str, headers: Mapping[str, str], as_json: bool) -> int:
    """The lines up to the first bad one are written; so what is left to do begins with that."""
    async with database.app(migrate="never") as app:
        topic = await _declare(app, name)
        written, failure = 0, None
        with reading(sys.stdin.fileno(), name) as on_read:
            lines = Lines(sys.stdin.fileno(), topic, headers, on_read=on_read)
            try:
                written = await topic.publish_many(lines)
            except (PublishFailed, PublishUncertain) as error:
                written, failure = error.written, error
    if as_json:
        print_json({"topic": name, "written": written})
    records = f"{written:,} record{'' if written == 1 else 's'}"
    if failure is not None:
        fail(failure)
    elif lines.fault is not None:
        fail(f"line {lines.number:,}: {lines.fault}; the {records} before it were written")
    else:
        say(f"{records} written to {name}.")
        return 0
    return 1


async def _declare(app: Streams, name: str) -> Topic[Any]:
    """The topic as the database has it; its type is for those who handle its records to know."""
    row = await app._entered().store.topic(name)
    if row is None:
        known = ", ".join(topic.topic for topic in await app.admin.topics()) or "none"
        raise UnknownTopic(
            name,
            f"there is no topic {name!r} in this database (there is: {known}); a program that declares it makes it "
            f"on first use",
        )
    if row.codec not in TYPES:
        raise TopicMismatch(name, "codec", code="json, msgpack or bytes", database=row.codec)
    topic: Topic[Any] = app.topic(name, TYPES[row.codec], partitions=row.partitions, codec=row.codec)
    return topic

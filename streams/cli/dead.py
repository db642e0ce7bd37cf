"""`streams dead`: the records that their groups gave up on."""

from base64 import b64encode

import anyio

from streams.cli.options import DATABASE, LOGGING, Database, Json, Logging
from streams.cli.terminal import print_json, print_table, say, timestamp
from streams.record import decode_headers
from streams.stores.rows import DeadLetter

COLUMNS = ("group", "topic", "partition", "offset", "key", "attempts", "cause", "died at", "error")


def list_dead(*, database: Database = DATABASE, as_json: Json = False, logging: Logging = LOGGING) -> None:
    """List the dead letters, oldest first; with --json also payload, headers and traceback."""
    logging.set_up()
    letters = anyio.run(database.ask, lambda admin: admin.dead.list())
    if as_json:
        print_json([_as_json(letter) for letter in letters])
        return
    print_table(COLUMNS, map(_row, letters))
    if not letters:
        say("There are no dead letters.")


def _row(letter: DeadLetter) -> tuple[str | int | None, ...]:
    place = letter.group, letter.topic, letter.partition, letter.offset, letter.key
    return *place, letter.attempts, letter.cause, timestamp(letter.died_at), letter.error


def _as_json(letter: DeadLetter) -> dict[str, object]:
    text, base64 = _payload(letter.payload)
    return {
        "group": letter.group,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "key": letter.key,
        "attempts": letter.attempts,
        "error": letter.error,
        "cause": letter.cause,
        "traceback": letter.traceback,
        "headers": decode_headers(letter.headers),
        "payload": text,
        "payload_base64": base64,
        "published_at": timestamp(letter.published_at),
        "died_at": timestamp(letter.died_at),
    }


def _payload(raw: bytes) -> tuple[str | None, str | None]:
    """As text, or what is none in base64."""
    try:
        return raw.decode(), None
    except UnicodeDecodeError:
        return None, b64encode(raw).decode()

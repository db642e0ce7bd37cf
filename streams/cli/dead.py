"""`streams dead`: the records that their groups gave up on."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, cast

import anyio
from cyclopts import App, Parameter

from streams.admin import Admin, Which
from streams.cli.options import DATABASE, LOGGING, Database, Json, Logging
from streams.cli.since import moment
from streams.cli.terminal import legible, print_json, print_table, say, timestamp
from streams.cli.usage import UsageError
from streams.record import decode_headers
from streams.stores.rows import DeadLetter

COLUMNS = ("group", "topic", "partition", "offset", "key", "attempts", "cause", "died at", "error")


@Parameter(name="*")
@dataclass(frozen=True)
class Chosen:
    """Which dead letters are meant: those to which all applies that is given."""

    group: Annotated[str | None, Parameter(help="Of this group.")] = None
    topic: Annotated[str | None, Parameter(help="Of this topic.")] = None
    partition: Annotated[int | None, Parameter(help="Of this partition.")] = None
    offset: Annotated[int | None, Parameter(help="At this offset.")] = None
    key: Annotated[str | None, Parameter(help="Of this key.")] = None
    error: Annotated[str | None, Parameter(help="Whose error contains this text.", metavar="TEXT")] = None
    since: Annotated[
        str | None, Parameter(help="That died since then: 15m, 2h, 7d ago, or a time in ISO 8601.", metavar="WHEN")
    ] = None

    def which(self) -> Which:
        """The same for `Admin`.

        Raises:
            UsageError: `since` is no moment.
        """
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in given.items() if value is not None}
        if self.since is not None:
            given["since"] = moment(self.since, datetime.now(UTC))
        return cast(Which, given)


EVERY = Chosen()
DryRun = Annotated[bool, Parameter(negative="", show_default=False, help="Only list them.")]


def commands() -> App:
    """The noun and its verbs."""
    dead = App(name="dead")
    dead.default(list_dead)
    dead.command(list_dead, name="list")
    for command in (show, discard, purge):
        dead.command(command)
    return dead


def list_dead(
    *, chosen: Chosen = EVERY, database: Database = DATABASE, as_json: Json = False, logging: Logging = LOGGING
) -> None:
    """List the dead letters, oldest first; with --json also payload, headers and traceback."""
    logging.set_up()
    _list(_ask(chosen, database), chosen, as_json=as_json)


def show(
    *, chosen: Chosen = EVERY, database: Database = DATABASE, as_json: Json = False, logging: Logging = LOGGING
) -> None:
    """Show dead letters whole: payload, headers, error and traceback."""
    logging.set_up()
    letters = _ask(chosen, database)
    if as_json:
        print_json([_as_json(letter) for letter in letters])
        return
    for number, letter in enumerate(letters):
        print(*([""] if number else []), *map(legible, _lines(letter)), sep="\n")
    if not letters:
        _say_none(chosen)


def discard(
    *,
    chosen: Chosen = EVERY,
    dry_run: DryRun = False,
    database: Database = DATABASE,
    as_json: Json = False,
    logging: Logging = LOGGING,
) -> None:
    """Remove the dead letters that are meant, for good. Their records stay settled, and in the topic's log."""
    if chosen == EVERY:
        raise UsageError("say which dead letters to discard, as by --group or --error; `streams dead purge` takes all")
    _remove(chosen, database, dry_run=dry_run, as_json=as_json, logging=logging)


def purge(
    *,
    chosen: Chosen = EVERY,
    dry_run: DryRun = False,
    database: Database = DATABASE,
    as_json: Json = False,
    logging: Logging = LOGGING,
) -> None:
    """Like discard; without a word on which ones, remove all dead letters there are."""
    _remove(chosen, database, dry_run=dry_run, as_json=as_json, logging=logging)


def _remove(chosen: Chosen, database: Database, *, dry_run: bool, as_json: bool, logging: Logging) -> None:
    logging.set_up()
    if dry_run:
        _list(_ask(chosen, database), chosen, as_json=as_json)
        return
    which = chosen.which()

    async def remove(admin: Admin) -> int:
        return await admin.dead.discard(**which)

    removed = anyio.run(database.ask, remove)
    if as_json:
        print_json({"discarded": removed})
    say(f"{removed:,} dead letters were discarded." if removed != 1 else "1 dead letter was discarded.")


def _ask(chosen: Chosen, database: Database) -> list[DeadLetter]:
    which = chosen.which()

    async def ask(admin: Admin) -> list[DeadLetter]:
        return await admin.dead.list(**which)

    return anyio.run(database.ask, ask)


def _list(letters: Sequence[DeadLetter], chosen: Chosen, *, as_json: bool) -> None:
    if as_json:
        print_json([_as_json(letter) for letter in letters])
        return
    print_table(COLUMNS, map(_row, letters))
    if not letters:
        _say_none(chosen)


def _say_none(chosen: Chosen) -> None:
    say("There are no dead letters." if chosen == EVERY else "There are no such dead letters.")


def _row(letter: DeadLetter) -> tuple[str | int | None, ...]:
    place = letter.group, letter.topic, letter.partition, letter.offset, letter.key
    return *place, letter.attempts, letter.cause, timestamp(letter.died_at), letter.error


def _lines(letter: DeadLetter) -> Iterator[str]:
    text, base64 = _payload(letter.payload)
    yield f"{letter.topic}/{letter.partition} offset {letter.offset}, group {letter.group}"
    yield f"  key        {'-' if letter.key is None else letter.key}"
    yield f"  published  {timestamp(letter.published_at)}"
    yield f"  died       {timestamp(letter.died_at)}, {letter.cause} after {letter.attempts} attempts"
    for name, value in decode_headers(letter.headers).items():
        yield f"  header     {name}: {value}"
    yield f"  payload    {text}" if base64 is None else f"  payload    {base64} (base64)"
    yield f"  error      {letter.error}"
    for line in letter.traceback.rstrip().splitlines():
        yield f"    {line}"


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

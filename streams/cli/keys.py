"""`streams keys`: the keys that a group cannot go on with."""

import anyio

from streams.cli.options import DATABASE, LOGGING, Database, Json, Logging
from streams.cli.terminal import print_json, print_table, say, timestamp
from streams.stores.rows import ParkedKey

COLUMNS = ("group", "topic", "partition", "key", "state", "attempts", "since", "until", "followers", "error")


def list_keys(*, database: Database = DATABASE, as_json: Json = False, logging: Logging = LOGGING) -> None:
    """List the keys whose next record has failed: how often, since when, and when it is tried again."""
    logging.set_up()
    keys = anyio.run(database.ask, lambda admin: admin.keys())
    if as_json:
        print_json([dict(zip(COLUMNS, _row(key), strict=True)) for key in keys])
        return
    print_table(COLUMNS, map(_row, keys))
    if not keys:
        say("No key is failing.")


def _row(key: ParkedKey) -> tuple[str | int | None, ...]:
    place = key.group, key.topic, key.partition, key.key
    times = timestamp(key.since), timestamp(key.until)
    return *place, "retrying", key.attempts, *times, key.followers, key.error

"""`streams where`: in which slot and partition a key lives, and how the groups do there."""

import anyio

from streams.admin import GroupAt
from streams.cli.options import DATABASE, LOGGING, Database, Json, Logging
from streams.cli.terminal import print_json, print_table, say, timestamp

COLUMNS = ("group", "owner", "epoch", "position", "end", "state", "attempts", "until", "error")


def where(
    topic: str, key: str, /, *, database: Database = DATABASE, as_json: Json = False, logging: Logging = LOGGING
) -> None:
    """Say where a key of a topic lives: its slot, its partition, who owns that, and whether the key is failing."""
    logging.set_up()
    found = anyio.run(database.ask, lambda admin: admin.where(topic, key))
    rows = [_row(group) for group in found.groups]
    if as_json:
        groups = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        place = {"topic": found.topic, "key": found.key, "slot": found.slot, "partition": found.partition}
        print_json({**place, "groups": groups})
        return
    say(f"{found.topic}/{found.partition}, slot {found.slot}")
    print_table(COLUMNS, rows)


def _row(group: GroupAt) -> tuple[str | int | None, ...]:
    place = group.group, group.owner, group.epoch, group.position, group.end
    if (key := group.failing) is None:
        return *place, None, None, None, None
    return *place, "retrying", key.attempts, timestamp(key.until), key.error

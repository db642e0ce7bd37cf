"""`streams groups`: who has read how far."""

from collections.abc import Iterator, Sequence
from typing import Annotated

import anyio
from cyclopts import Parameter

from streams.cli.options import DATABASE, LOGGING, Database, Json, Logging
from streams.cli.terminal import print_json, print_table, say
from streams.stores.rows import GroupStatus

GROUP_COLUMNS = ("group", "topic", "partitions", "owned", "members", "lag", "parked")
PARTITION_COLUMNS = ("group", "topic", "partition", "owner", "epoch", "position", "end", "lag", "parked")


def list_groups(
    *,
    partitions: Annotated[
        bool, Parameter(negative="", show_default=False, help="A line for each partition, with its owner.")
    ] = False,
    database: Database = DATABASE,
    as_json: Json = False,
    logging: Logging = LOGGING,
) -> None:
    """List the groups of each topic: how many records they lag behind, and who owns the partitions."""
    logging.set_up()
    groups = anyio.run(database.ask, lambda admin: admin.groups())
    if as_json:
        print_json(groups)
        return
    if partitions:
        print_table(PARTITION_COLUMNS, _partitions(groups))
    else:
        print_table(GROUP_COLUMNS, map(_summary, groups))
    if not groups:
        say("There is no group yet: a worker that subscribes makes it.")


def _summary(group: GroupStatus) -> tuple[str | int, ...]:
    owners = [partition.owner for partition in group.partitions if partition.owner is not None]
    count = len(group.partitions)
    return group.group, group.topic, count, len(owners), len(set(owners)), group.lag, group.parked


def _partitions(groups: Sequence[GroupStatus]) -> Iterator[tuple[str | int | None, ...]]:
    for group in groups:
        for p in group.partitions:
            yield group.group, group.topic, p.partition, p.owner, p.epoch, p.position, p.end, p.lag, p.parked

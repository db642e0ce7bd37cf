"""What groups have done, in SQLite, as functions inside a transaction."""

import msgspec

from partition import Range, union
from streams.stores.rows import (
    DeadFilter,
    DeadLetter,
    GroupStatus,
    Parked,
    ParkedKey,
    PartitionStatus,
    Settlement,
    lag,
    parked_keys,
)
from streams.stores.sqlite import log
from streams.stores.sqlite.connection import Transaction

_ranges = msgspec.json.Decoder(tuple[tuple[int, int], ...])


def settle(tx: Transaction, group_id: int, settlement: Settlement, now: int) -> bool:
    """Apply one settlement; False: its lease was passed on. One that is already in is left as it is."""
    lease, progress = settlement.lease, settlement.progress
    place = (group_id, lease.partition)
    if tx.one("fence", (*place, lease.member, lease.epoch)) is None:
        return False
    ranges = msgspec.json.encode(progress.settled).decode()
    key = {"group_id": group_id, "partition": lease.partition, "epoch": lease.epoch, "number": progress.number}
    reached = {"position": progress.position, "settled": ranges, "whole": progress.whole}
    if tx.run("append_progress", key | reached).rowcount == 0:
        return True
    if progress.whole:
        tx.run("prune_progress", key)
    if settlement.publish:
        log.append(tx, settlement.publish, now)
    for letter in settlement.dead:
        tx.run("insert_dead", (*place, *msgspec.structs.astuple(letter)[3:-1], now))
    for offset in settlement.unpark:
        tx.run("unpark", (*place, offset))
    for row in settlement.park:
        tx.run("park", (*place, *msgspec.structs.astuple(row)))
    for statement in settlement.statements:
        tx.cursor.execute(statement.sql, statement.args)
    return True


def progress(tx: Transaction, group_id: int, partition: int) -> tuple[int, tuple[Range, ...]]:
    """The position of a group in a partition, and what is settled above it."""
    position = 0
    settled: list[Range] = []
    for reached, ranges, whole in tx.run("progress", (group_id, partition)):
        position = reached
        if whole:
            settled.clear()
        settled += [Range(low, high) for low, high in _ranges.decode(ranges)]
    return position, union(settled, position)


def parked(tx: Transaction, group_id: int, partition: int) -> list[Parked]:
    """The rows of unsettled records, by offset."""
    return [Parked(*row) for row in tx.run("parked_rows", (group_id, partition))]


def parked_everywhere(tx: Transaction) -> list[ParkedKey]:
    """The keys that are failing, of all groups."""
    rows = tx.run("parked_everywhere")
    return parked_keys((group, topic, partition, Parked(*row)) for group, topic, partition, *row in rows)


def groups(tx: Transaction, now: int) -> list[GroupStatus]:
    """All groups with all their partitions."""
    found: dict[tuple[str, str], list[PartitionStatus]] = {}
    for group, topic, group_id, partition, epoch, end, owner in tx.run("groups", {"now": now}).fetchall():
        position, settled = progress(tx, group_id, partition)
        offsets = [offset for (offset,) in tx.run("parked", (group_id, partition))]
        behind = lag(position, end, settled, offsets)
        status = PartitionStatus(partition, owner, epoch, position, end, behind, len(offsets))
        found.setdefault((group, topic), []).append(status)
    return [
        GroupStatus(
            group,
            topic,
            sum(p.lag for p in statuses),
            sum(p.parked for p in statuses),
            tuple(statuses),
        )
        for (group, topic), statuses in found.items()
    ]


def dead(tx: Transaction, which: DeadFilter) -> list[DeadLetter]:
    """The dead letters that are meant, oldest first."""
    return [DeadLetter(*row) for row in tx.run("dead", msgspec.structs.asdict(which))]


def remove_dead(tx: Transaction, which: DeadFilter) -> int:
    """Remove the dead letters that are meant; how many there were."""
    return tx.run("remove_dead", msgspec.structs.asdict(which)).rowcount

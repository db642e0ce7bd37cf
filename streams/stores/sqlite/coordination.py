"""Members, leases and epochs in SQLite, as functions inside a transaction.

The write lock makes a takeover simple: nobody else writes between declaring a member dead, raising the epoch and
reading how far it got.
"""

from collections.abc import Sequence

import msgspec

from partition import Beat, Lease
from streams.errors import UnknownTopic
from streams.stores.rows import Held, MemberRow, View
from streams.stores.sqlite import log, settlement
from streams.stores.sqlite.connection import Transaction


def find_group(tx: Transaction, group: str, topic: str) -> int | None:
    """The id of a group of a topic, or None."""
    row = tx.one("group_id", (group, topic))
    return int(row[0]) if row else None


def group_id(tx: Transaction, group: str, topic: str) -> int:
    """The id of a group of a topic that exists."""
    found = find_group(tx, group, topic)
    if found is None:
        raise UnknownTopic(topic, f"group {group!r} of topic {topic!r} is not in the database; was it deleted?")
    return found


def ensure_group(tx: Transaction, group: str, topic: str, start: str, now: int) -> None:
    """Make the group unless it exists, with a free lease and a position for each partition."""
    if tx.one("group_id", (group, topic)):
        return
    row = log.topic(tx, topic)
    if row is None:
        raise UnknownTopic(topic, f"topic {topic!r} is not in the database; was it deleted?")
    (made,) = tx.one("insert_group", (group, row.id, start, now))
    tx.run("insert_leases", {"group_id": made, "topic_id": row.id})
    tx.run("insert_positions", {"group_id": made, "topic_id": row.id, "start": start})
    tx.run("bump_generation")


def register(tx: Transaction, member: MemberRow, replaces: str | None, now: int) -> None:
    """Write the member's row."""
    if replaces is not None:
        tx.run("declare_dead", (replaces,))
    tx.run(
        "insert_member",
        (
            member.member,
            member.host,
            member.pid,
            msgspec.json.encode(member.serves).decode(),
            member.lease_micros,
            now + member.lease_micros,
            member.turned,
            member.stopping,
        ),
    )
    tx.run("delete_spent_members")  # Only now: its id may be that of a dead one, and is refused then.
    tx.run("bump_generation")


def beat(tx: Transaction, member: str, turned: bool, stopping: bool, now: int) -> bool:
    """Prolong a life that has not ended."""
    row = tx.one("member", (member,))
    if row is None:
        return False
    alive_until, lease_micros, was_turned, was_stopping, dead = row
    if dead:
        return False
    if alive_until <= now:  # Final, also should the clock step back.
        tx.run("declare_dead", (member,))
        tx.run("bump_generation")
        return False
    tx.run("beat", (now + lease_micros, turned, stopping, member))
    if (turned, stopping) != (bool(was_turned), bool(was_stopping)):
        tx.run("bump_generation")
    return True


def leave(tx: Transaction, member: str) -> None:
    """Release what is left, remove the row."""
    tx.run("release_all", (member,))
    tx.run("delete_member", (member,))
    tx.run("bump_generation")


def view(tx: Transaction, pairs: Sequence[tuple[str, str]], now: int) -> View:
    """Members and leases in one snapshot."""
    (generation,) = tx.one("generation")
    leases = tuple(
        Lease(group, topic, *row) for group, topic in pairs for row in _leases(tx, group_id(tx, group, topic))
    )
    return View(now=now, generation=generation, members=tuple(members(tx)), leases=leases)


def members(tx: Transaction) -> list[MemberRow]:
    """All members that were not declared dead."""
    return [_member(row) for row in tx.run("members")]


def acquire(
    tx: Transaction,
    member: str,
    wanted: Sequence[tuple[str, str, int]],
    dead: Sequence[Beat],
    now: int,
) -> list[Held]:
    """Declare the dead, then take what is free; positions are read after the epoch was raised."""
    for suspect in dead:
        _declare_dead(tx, suspect, now)
    row = tx.one("member", (member,))
    if row is None or row[4] or row[0] <= now:
        return []
    found = []
    for group, topic, partition in wanted:
        group_key = find_group(tx, group, topic)
        taken = tx.one("acquire", {"member": member, "group_id": group_key, "partition": partition})
        if taken is None:
            continue
        assert group_key is not None
        lease = Lease(group, topic, partition, member, taken[0])
        position, settled = settlement.progress(tx, group_key, partition)
        (end,) = tx.one("last_offset", (group_key, partition))
        parked = tuple(settlement.parked(tx, group_key, partition))
        found.append(Held(lease, position, settled, end, parked, now))
    if found:
        tx.run("bump_generation")
    return found


def release(tx: Transaction, leases: Sequence[Lease]) -> None:
    """Give leases back that are still held under their member and epoch."""
    for lease in leases:
        group_key = find_group(tx, lease.group, lease.topic)
        tx.run("release", (group_key, lease.partition, lease.member, lease.epoch))
    tx.run("bump_generation")


def _leases(tx: Transaction, group_key: int) -> list[tuple[int, str | None, int]]:
    return tx.run("leases", (group_key,)).fetchall()


def _member(row: tuple[str, str, int, str, int, int, int, int, int]) -> MemberRow:
    member, host, pid, serves, lease_micros, alive_until, turned, stopping, dead = row
    pairs = msgspec.json.decode(serves, type=tuple[tuple[str, str], ...])
    return MemberRow(
        member,
        host,
        pid,
        pairs,
        lease_micros,
        alive_until,
        bool(turned),
        bool(stopping),
        bool(dead),
    )


def _declare_dead(tx: Transaction, suspect: Beat, now: int) -> None:
    """Only when the row still says what the looker saw, and has expired or lies too far ahead to be true."""
    row = tx.one("member", (suspect.member,))
    if row is None or row[0] != suspect.alive_until:
        return
    alive_until, lease_micros = row[:2]
    if alive_until <= now or alive_until > now + lease_micros:
        tx.run("declare_dead", (suspect.member,))
        tx.run("bump_generation")

"""Members, leases and epochs in PostgreSQL."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import msgspec

from partition import Beat, Lease
from streams.errors import UnknownTopic
from streams.stores.postgres import settlement
from streams.stores.postgres.session import Session
from streams.stores.rows import Held, MemberRow, Parked, View

GroupIds = dict[tuple[str, str], int]


async def group_ids(session: Session) -> GroupIds:
    """The ids of all groups of topics."""
    return {(group, topic): found for group, topic, found in await session.read("group_ids")}


async def ensure_group(session: Session, group: str, topic: str, start: str, now: int | None) -> None:
    """Make the group unless it exists, with a free lease and a position for each partition."""
    ((known,),) = await session.write("ensure_group", group, topic, start, now)
    if not known:
        raise UnknownTopic(topic, f"topic {topic!r} is not in the database; was it deleted?")


async def register(session: Session, member: MemberRow, replaces: str | None, now: int | None) -> None:
    """Write the member's row."""
    await session.write(
        "register",
        member.member,
        member.host,
        member.pid,
        msgspec.json.encode(member.serves).decode(),
        member.lease_micros,
        member.turned,
        member.stopping,
        replaces,
        now,
    )


async def view(session: Session, pairs: Sequence[tuple[str, str]], now: int | None) -> View:
    """Members and leases in one snapshot."""
    groups, topics = [group for group, _ in pairs], [topic for _, topic in pairs]
    ((generation, moment, members, leases),) = await session.read("view", groups, topics, now)
    rows = msgspec.json.decode(leases, type=list[tuple[int, int, str | None, int]])
    found = [
        Lease(group, topic, partition, member, epoch)
        for number, partition, member, epoch in rows
        for group, topic in (pairs[number - 1],)
    ]
    if missing := set(pairs) - {(lease.group, lease.topic) for lease in found}:
        group, topic = min(missing)
        raise UnknownTopic(topic, f"group {group!r} of topic {topic!r} is not in the database; was it deleted?")
    return View(moment, generation, tuple(_member(row) for row in msgspec.json.decode(members)), tuple(found))


async def acquire(
    session: Session,
    ids: GroupIds,
    member: str,
    wanted: Sequence[tuple[str, str, int]],
    dead: Sequence[Beat],
    now: int | None,
) -> list[Held]:
    """Declare the dead, take what is free, then read how far it got: later than the epoch was raised."""
    known = list(
        dict.fromkeys((ids[group, topic], partition) for group, topic, partition in wanted if (group, topic) in ids)
    )
    rows = await session.write(
        "acquire",
        member,
        [group_id for group_id, _ in known],
        [partition for _, partition in known],
        [beat.member for beat in dead],
        [beat.alive_until for beat in dead],
        now,
    )
    if not rows:
        return []
    epochs = {(group_id, partition): epoch for group_id, partition, epoch in rows}
    places = [group_id for group_id, _ in epochs], [partition for _, partition in epochs]
    progresses = await session.read("progress", *places)
    parked: dict[tuple[int, int], list[Parked]] = defaultdict(list)
    for group_id, partition, *row in await session.read("parked", *places):
        parked[group_id, partition].append(Parked(*row))
    ends = {tuple(row[:2]): row[2:] for row in map(tuple, await session.read("last_offsets", *places, now))}
    names = {found: pair for pair, found in ids.items()}
    held = {}
    for place, newest in groupby(progresses, key=lambda row: (row[0], row[1])):
        position, settled = settlement.progress(row[2:] for row in map(tuple, newest))
        lease = Lease(*names[place[0]], place[1], member, epochs[place])
        end, moment = ends[place]
        held[place] = Held(lease, position, settled, end, tuple(parked[place]), moment)
    return [held[place] for place in known if place in held]


async def release(session: Session, ids: GroupIds, leases: Sequence[Lease]) -> None:
    """Give leases back that are still held under their member and epoch."""
    known = [(ids[lease.group, lease.topic], lease) for lease in leases if (lease.group, lease.topic) in ids]
    await session.write(
        "release",
        [group_id for group_id, _ in known],
        [lease.partition for _, lease in known],
        [lease.member for _, lease in known],
        [lease.epoch for _, lease in known],
    )


def _member(row: Sequence[Any]) -> MemberRow:
    member, host, pid, serves, *rest = row
    pairs = msgspec.json.decode(serves, type=tuple[tuple[str, str], ...])
    return MemberRow(member, host, pid, pairs, *rest)

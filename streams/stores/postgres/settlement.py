"""What groups have done, in PostgreSQL."""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from partition import Lease, Range, union
from partition.window import WHOLE_EVERY
from streams.stores.postgres.log import columns
from streams.stores.postgres.session import Session
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


def arguments(settlements: Sequence[Settlement], group_ids: Sequence[int]) -> tuple[Any, ...]:
    """What the function `settle` takes, without the clock. No settlement is in it twice."""
    leases = [one.lease for one in settlements]
    progresses = [one.progress for one in settlements]
    causes = [(number, source) for number, one in enumerate(settlements, 1) for source in _causes(one)]
    dead: dict[tuple[Lease, int], Mapping[str, object]] = {}
    parked: dict[tuple[Lease, int], Mapping[str, object]] = {}
    unparked: list[Mapping[str, object]] = []
    for number, one in enumerate(settlements, 1):
        for letter in one.dead:  # The last word on a record counts, and its place in the order.
            place = one.lease, letter.offset
            dead.pop(place, None)
            dead[place] = _letter(number, letter)
        for offset in one.unpark:
            parked.pop((one.lease, offset), None)
            unparked.append({"i": number, "offset": offset})
        for row in one.park:
            place = one.lease, row.offset
            parked[place] = {"i": number, **msgspec.structs.asdict(row)}
    return (
        group_ids,
        [lease.partition for lease in leases],
        [lease.member for lease in leases],
        [lease.epoch for lease in leases],
        [progress.number for progress in progresses],
        [progress.position for progress in progresses],
        [_multirange(progress.settled) for progress in progresses],
        [progress.whole for progress in progresses],
        WHOLE_EVERY,
        [number for number, _ in causes],
        [source for _, source in causes],
        *columns([publication for one in settlements for publication in one.publish]),
        _json(list(dead.values())),
        _json(list(parked.values())),
        _json(unparked),
    )


def parts(settlements: Iterable[Settlement], *, records: int, size: int) -> Iterator[list[Settlement]]:
    """The same in lists that carry so many records and bytes at most, or one settlement that carries more."""
    part: list[Settlement] = []
    room = records, size
    for one in settlements:
        payloads = [record.payload for record in one.publish] + [letter.payload for letter in one.dead]
        needed = len(payloads), sum(map(len, payloads))
        if part and (needed[0] > room[0] or needed[1] > room[1]):
            yield part
            part, room = [], (records, size)
        part.append(one)
        room = room[0] - needed[0], room[1] - needed[1]
    yield part


def progress(rows: Iterable[tuple[int, str, bool]]) -> tuple[int, tuple[Range, ...]]:
    """The position and what is settled above it, from (position, settled, whole), oldest first."""
    position = 0
    settled: list[Range] = []
    for reached, ranges, whole in rows:
        position = reached
        if whole:
            settled.clear()
        settled += _ranges(ranges)
    return position, union(settled, position)


async def groups(session: Session, now: int | None) -> list[GroupStatus]:
    """All groups with all their partitions."""
    found: dict[tuple[str, str], list[PartitionStatus]] = {}
    for group, topic, partition, epoch, end, owner, newest, parked in await session.read("groups", now):
        rows = [row.split(" ", 2) for row in newest]
        position, settled = progress((int(at), ranges, whole == "1") for at, whole, ranges in rows)
        behind = lag(position, end, settled, parked)
        status = PartitionStatus(partition, owner, epoch, position, end, behind, len(parked))
        found.setdefault((group, topic), []).append(status)
    return [
        GroupStatus(group, topic, sum(p.lag for p in statuses), sum(p.parked for p in statuses), tuple(statuses))
        for (group, topic), statuses in found.items()
    ]


async def parked(session: Session) -> list[ParkedKey]:
    """The keys that are failing, of all groups."""
    rows = await session.read("parked_everywhere")
    return parked_keys((group, topic, partition, Parked(*row)) for group, topic, partition, *row in map(tuple, rows))


async def dead(session: Session, which: DeadFilter) -> list[DeadLetter]:
    """The dead letters that are meant, oldest first."""
    return [DeadLetter(*row) for row in await session.read("dead", *msgspec.structs.astuple(which))]


def _causes(settlement: Settlement) -> Sequence[int]:
    """Which record each publication goes with; 0, which no record has, where it goes with the settlement as a whole."""
    return settlement.causes or [0] * len(settlement.publish)


def _letter(number: int, letter: DeadLetter) -> Mapping[str, object]:
    return {
        "i": number,
        "offset": letter.offset,
        "key": letter.key,
        "payload": base64.b64encode(letter.payload).decode(),
        "headers": None if letter.headers is None else base64.b64encode(letter.headers).decode(),
        "published_at": letter.published_at,
        "attempts": letter.attempts,
        "cause": letter.cause,
        "error": letter.error,
        "traceback": letter.traceback,
    }


def _json(rows: list[Any]) -> str:
    return msgspec.json.encode(rows).decode()


def _multirange(ranges: Sequence[Range]) -> str:
    return "{" + ",".join(f"[{low},{high}]" for low, high in ranges) + "}"


def _ranges(text: str) -> list[Range]:
    """Ranges as PostgreSQL writes them: `{[1,4),[6,7)}`."""
    if text == "{}":
        return []
    pairs = (pair.split(",") for pair in text[2:-2].split("),["))
    return [Range(int(low), int(high) - 1) for low, high in pairs]

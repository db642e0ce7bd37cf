"""Who is alive: what one look at the members' rows says, and when the next look is due.

A row says until when its member is alive, by the database's clock, and every look is taken with
that clock too. So the clocks of the machines are never compared, and only a step of the
database's own clock can mislead::

    now                      now + lease
     |--- alive, ordinarily ---|--- too far ahead: no beat under this clock wrote that --->
    alive_until ->

A row too far ahead was written before the clock stepped back. Taken at its word it would keep a
dead member's partitions for as long as the step was wide. It is judged by the looker instead:
whoever is alive renews its row well within a lease, so a row that has not changed for one lease
of the looker's own clock is dead. The looker remembers when it first saw the row in a
`Sighting`, which it hands in again at its next look.

A row that is no longer too far ahead, because the clock has caught up or the member has beaten, is
judged by the database's clock again, and its sighting is forgotten. So after a step back of up to
one lease a silent member is found dead that much later: within two leases, not one.

This is an opinion. What makes a member dead is the first statement of the takeover, which
writes it on the row.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Beat:
    """What a member's row says.

    `alive_until` is in microseconds of the database's clock; `lease_micros` is the member's
    time to live; `dead` says that somebody has declared the member dead, which is final.
    """

    member: str
    alive_until: int
    lease_micros: int
    dead: bool = False


@dataclass(frozen=True, slots=True)
class Sighting:
    """A row too far ahead: what it says, and since when, in seconds of the looker's clock."""

    alive_until: int
    since: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a look found.

    `dead` is sorted by member. `sightings` is to be handed in at the next look.
    `look_again_seconds` is how long from now the earliest live row may be dead, above zero;
    None when no row is live.
    """

    live: frozenset[str]
    dead: tuple[Beat, ...]
    sightings: Mapping[str, Sighting]
    look_again_seconds: float | None


def judge(beats: Iterable[Beat], *, now: int, clock: float, sightings: Mapping[str, Sighting]) -> Judgement:
    """Judge every row by the rules above.

    `now` is the database's clock in microseconds, read together with the rows; `clock` is the
    looker's own in seconds, one that does not step; `sightings` are those of the last
    judgement, `{}` at the first look.
    """
    live: dict[str, float] = {}
    dead: list[Beat] = []
    kept: dict[str, Sighting] = {}
    for beat in beats:
        if _too_far_ahead(beat, now):
            kept[beat.member] = _sighting(beat, clock, sightings)
        left = _seconds_left(beat, now, clock, kept.get(beat.member))
        if left > 0:
            live[beat.member] = left
        else:
            dead.append(beat)
    return Judgement(
        live=frozenset(live),
        dead=tuple(sorted(dead, key=lambda beat: beat.member)),
        sightings=kept,
        look_again_seconds=min(live.values(), default=None),
    )


def _too_far_ahead(beat: Beat, now: int) -> bool:
    return not beat.dead and beat.alive_until > now + beat.lease_micros


def _sighting(beat: Beat, clock: float, sightings: Mapping[str, Sighting]) -> Sighting:
    """The earlier sighting of a row if it has not changed since, else a first one."""
    earlier = sightings.get(beat.member)
    if earlier is not None and earlier.alive_until == beat.alive_until:
        return earlier
    return Sighting(beat.alive_until, clock)


def _seconds_left(beat: Beat, now: int, clock: float, sighting: Sighting | None) -> float:
    """How long a row stays alive if nothing renews it; zero or less when it is dead."""
    if beat.dead:
        return 0.0
    if sighting is not None:
        return sighting.since + beat.lease_micros / MICROS - clock
    return (beat.alive_until - now) / MICROS

"""Who is judged dead, by which clock, and when to look again."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition.membership import Beat, Judgement, Sighting, judge

STEADY = settings(derandomize=True, deadline=None, max_examples=150)

NOW = 1_700_000_000_000_000
LEASE = 10_000_000
HOUR = 3_600_000_000


def beat(member: str, left_micros: int, *, dead: bool = False) -> Beat:
    return Beat(member, NOW + left_micros, LEASE, dead)


def look(*beats: Beat, now: int = NOW, clock: float = 0.0, after: Judgement | None = None) -> Judgement:
    return judge(beats, now=now, clock=clock, sightings=after.sightings if after else {})


def test_nobody_is_neither_live_nor_dead_and_nothing_is_due() -> None:
    assert look() == Judgement(frozenset(), (), {}, None)


def test_a_member_lives_until_the_moment_its_row_names() -> None:
    assert look(beat("a", 1)).live == {"a"}
    assert look(beat("a", 0)).dead == (beat("a", 0),)
    assert look(beat("a", -1)).dead == (beat("a", -1),)


def test_a_member_declared_dead_is_dead_whatever_its_row_says() -> None:
    rows = beat("a", LEASE, dead=True), beat("b", HOUR, dead=True)
    judgement = look(*rows)
    assert judgement == Judgement(frozenset(), rows, {}, None)


def test_the_dead_are_sorted_by_member() -> None:
    rows = [beat("c", -1), beat("a", 0), beat("d", 5), beat("b", 9, dead=True)]
    assert [row.member for row in look(*rows).dead] == ["a", "b", "c"]


def test_the_next_look_is_due_when_the_earliest_live_row_expires() -> None:
    rows = beat("a", 7_500_000), beat("b", 2_250_000), beat("c", -9), beat("d", 1, dead=True)
    assert look(*rows).look_again_seconds == 2.25


def test_a_row_is_too_far_ahead_only_beyond_its_own_time_to_live() -> None:
    assert look(beat("a", LEASE)).sightings == {}
    assert look(beat("a", LEASE + 1), clock=3.0).sightings == {"a": Sighting(NOW + LEASE + 1, since=3.0)}
    patient = Beat("a", NOW + HOUR, HOUR)
    assert look(patient).sightings == {}


def test_a_row_too_far_ahead_is_dead_once_unchanged_for_one_lease_of_the_lookers_clock() -> None:
    row = beat("a", HOUR)
    first = look(row, clock=100.0)
    assert (first.live, first.look_again_seconds) == (frozenset("a"), 10.0)
    second = look(row, clock=107.5, after=first)
    assert (second.live, second.look_again_seconds) == (frozenset("a"), 2.5)
    third = look(row, clock=110.0, after=second)
    assert (third.dead, third.look_again_seconds) == ((row,), None)


def test_a_row_too_far_ahead_stays_dead_until_it_changes() -> None:
    row = beat("a", HOUR)
    first = look(row, clock=0.0)
    second = look(row, clock=10.0, after=first)
    third = look(row, clock=10.1, after=second)
    assert third.dead == (row,)


def test_a_row_too_far_ahead_that_moves_is_alive() -> None:
    first = look(beat("a", HOUR), clock=0.0)
    second = look(beat("a", HOUR + 1), clock=9.0, after=first)
    assert second.sightings == {"a": Sighting(NOW + HOUR + 1, since=9.0)}
    assert look(beat("a", HOUR + 1), clock=18.9, after=second).live == {"a"}
    assert look(beat("a", HOUR + 1), clock=19.0, after=second).live == frozenset()


def test_what_the_database_clock_says_meanwhile_does_not_count_for_a_row_too_far_ahead() -> None:
    row = beat("a", HOUR)
    first = look(row, clock=0.0)
    assert look(row, now=NOW + LEASE, clock=9.9, after=first).live == {"a"}
    assert look(row, now=NOW - LEASE, clock=10.0, after=first).dead == (row,)


def test_a_sighting_is_forgotten_once_its_row_is_ordinary_dead_or_gone() -> None:
    row = beat("a", HOUR)
    first = look(row, clock=0.0)
    assert first.sightings
    assert look(beat("a", LEASE), clock=1.0, after=first).sightings == {}
    assert look(row, now=NOW + HOUR, clock=1.0, after=first).sightings == {}
    assert look(replace(row, dead=True), clock=1.0, after=first).sightings == {}
    assert look(clock=1.0, after=first).sightings == {}


def test_the_judgement_leaves_the_sightings_it_was_given_alone() -> None:
    sightings = {"gone": Sighting(NOW, 0.0)}
    judge([beat("a", HOUR)], now=NOW, clock=1.0, sightings=sightings)
    assert sightings == {"gone": Sighting(NOW, 0.0)}


def test_a_row_that_is_no_longer_too_far_ahead_is_judged_by_the_database_clock_again() -> None:
    row = beat("a", LEASE + 4_000_000)
    first = look(row, clock=0.0)
    second = look(row, now=NOW + 4_000_000, clock=4.0, after=first)
    assert (second.live, second.look_again_seconds) == (frozenset("a"), 10.0)
    assert look(row, now=NOW + 13_999_999, clock=13.999999, after=second).live == {"a"}
    assert look(row, now=NOW + 14_000_000, clock=14.0, after=second).dead == (row,)


beats = st.lists(
    st.builds(
        Beat,
        member=st.sampled_from("abcdef"),
        alive_until=st.integers(NOW - 3 * LEASE, NOW + 3 * LEASE),
        lease_micros=st.integers(1_000_000, LEASE),
        dead=st.booleans(),
    ),
    unique_by=lambda row: row.member,
)
seen = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(Sighting, st.integers(NOW, NOW + 3 * LEASE), st.floats(0, 20)),
)


@STEADY
@given(beats, seen)
def test_every_member_is_either_live_or_dead_and_the_next_look_is_never_in_the_past(
    rows: list[Beat], sightings: dict[str, Sighting]
) -> None:
    judgement = judge(rows, now=NOW, clock=20.0, sightings=sightings)
    dead = {row.member for row in judgement.dead}
    assert judgement.live | dead == {row.member for row in rows}
    assert not judgement.live & dead
    due = judgement.look_again_seconds
    assert (due is None) == (not judgement.live)
    assert due is None or 0 < due <= LEASE / 1_000_000


@STEADY
@given(beats, seen, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(
    rows: list[Beat], sightings: dict[str, Sighting], random: Random
) -> None:
    shuffled = random.sample(rows, len(rows))
    assert judge(shuffled, now=NOW, clock=20.0, sightings=sightings) == judge(
        rows, now=NOW, clock=20.0, sightings=sightings
    )


@STEADY
@given(rows=beats, steps=st.lists(st.floats(0.01, 3.0), min_size=1, max_size=12))
def test_an_ordinary_row_that_is_not_renewed_never_lives_again(rows: list[Beat], steps: list[float]) -> None:
    judgement = look(*rows)
    rows = [row for row in rows if row.member not in judgement.sightings]
    clock = 0.0
    for step in steps:
        clock += step
        later = look(*rows, now=NOW + round(clock * 1_000_000), clock=clock, after=judgement)
        assert later.live <= judgement.live
        judgement = later


@pytest.mark.parametrize("step_back", [0, 1, LEASE // 2, LEASE, 3 * LEASE, HOUR])
def test_a_member_that_beats_is_live_however_far_the_database_clock_stepped_back(
    step_back: int,
) -> None:
    judgement = None
    for tick in range(200):
        sent = tick - tick % 3  # a beat every three seconds, a look every second
        stepped = step_back if sent >= 30 else 0
        row = Beat("a", NOW + sent * 1_000_000 - stepped + LEASE, LEASE)
        now = NOW + tick * 1_000_000 - (step_back if tick >= 29 else 0)
        judgement = look(row, now=now, clock=float(tick), after=judgement)
        assert judgement.live == {"a"}


@pytest.mark.parametrize("step_back", [0, 1, LEASE // 2, LEASE - 1, LEASE, 3 * LEASE, HOUR])
def test_a_silent_member_is_dead_within_two_leases_however_far_the_clock_stepped_back(
    step_back: int,
) -> None:
    row = beat("a", LEASE)
    clock = 0.0
    judgement = look(row, now=NOW - step_back, clock=clock)
    looks = 0
    while judgement.look_again_seconds is not None:
        clock += judgement.look_again_seconds
        now = NOW - step_back + round(clock * 1_000_000)
        judgement = look(row, now=now, clock=clock, after=judgement)
        looks += 1
    assert looks <= 2
    assert clock == 10.0 + (step_back / 1_000_000 if step_back <= LEASE else 0)

"""The heart's rhythm leaves room for failed beats; only the holder's epoch passes the fence."""

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition.lease import Lease, Rhythm

STEADY = settings(derandomize=True, deadline=None, max_examples=200)

leases = st.floats(1, 86_400)
times = st.floats(0, 1e9)

FREE = Lease("billing", "orders", 5, None, 0)


@pytest.mark.parametrize(
    ("lease_seconds", "rhythm"),
    [
        (30, Rhythm(30.0, 10.0, 5.0, 1.0, 20.0)),
        (1, Rhythm(1.0, 1 / 3, 1 / 6, 1 / 30, 2 / 3)),
        (86_400, Rhythm(86_400.0, 28_800.0, 14_400.0, 2_880.0, 57_600.0)),
    ],
)
def test_the_times_of_a_heart_are_parts_of_its_lease(lease_seconds: float, rhythm: Rhythm) -> None:
    assert Rhythm.of(lease_seconds) == rhythm


@pytest.mark.parametrize("lease_seconds", [0, -10, 0.999, 86_400.1, float("nan"), float("inf"), float("-inf")])
def test_a_lease_that_cannot_work_is_refused_with_a_sentence(lease_seconds: float) -> None:
    with pytest.raises(ValueError, match=rf"from 1 to 86,400, not {lease_seconds}: it is how long"):
        Rhythm.of(lease_seconds)


@STEADY
@given(leases, times)
def test_trust_ends_two_thirds_after_the_beat_was_sent_and_before_the_lease(lease_seconds: float, sent: float) -> None:
    until = Rhythm.of(lease_seconds).trusted_until(sent)
    assert until == pytest.approx(sent + lease_seconds * 2 / 3)
    assert sent < until < sent + lease_seconds


def test_after_a_success_the_next_beat_is_a_third_after_that_one_was_sent() -> None:
    assert Rhythm.of(30).next_beat(100.0, 104.0, succeeded=True) == 110.0


def test_after_a_failure_the_next_try_is_a_thirtieth_later() -> None:
    assert Rhythm.of(30).next_beat(100.0, 105.0, succeeded=False) == 106.0


def test_a_beat_that_is_overdue_is_due_now() -> None:
    assert Rhythm.of(30).next_beat(100.0, 111.0, succeeded=True) == 111.0


@STEADY
@given(leases, times, st.floats(0, 1e6), st.booleans())
def test_the_next_beat_is_never_in_the_past(lease_seconds: float, sent: float, took: float, succeeded: bool) -> None:
    assert Rhythm.of(lease_seconds).next_beat(sent, sent + took, succeeded=succeeded) >= sent + took


def tries_while_trusted(rhythm: Rhythm, each_takes: float) -> int:
    """How many tries start while trust lasts, when all fail and each takes so many seconds."""
    started = 0
    sent = rhythm.next_beat(0.0, 0.0, succeeded=True)
    while sent < rhythm.trusted_until(0.0) - 1e-9:
        started += 1
        sent = rhythm.next_beat(sent, sent + each_takes, succeeded=False)
    return started


@pytest.mark.parametrize("lease_seconds", [1, 1.7, 10, 30, 3_600, 86_400])
def test_several_tries_fit_before_trust_ends(lease_seconds: float) -> None:
    rhythm = Rhythm.of(lease_seconds)
    assert rhythm.tries_before_trust_ends == 2
    assert tries_while_trusted(rhythm, each_takes=rhythm.bound_seconds) == 2
    assert tries_while_trusted(rhythm, each_takes=0.0) == 10


@pytest.mark.parametrize("lease_seconds", [1, 10, 86_400])
def test_one_beat_that_is_lost_costs_no_trust(lease_seconds: float) -> None:
    rhythm = Rhythm.of(lease_seconds)
    first = rhythm.next_beat(0.0, 0.0, succeeded=True)
    again = rhythm.next_beat(first, first + rhythm.bound_seconds, succeeded=False)
    assert rhythm.trusted_until(0.0) - again == pytest.approx(lease_seconds * 2 / 15)


def test_an_acquisition_raises_the_epoch_by_one() -> None:
    assert FREE.acquired_by("a") == Lease("billing", "orders", 5, "a", 1)


def test_an_acquisition_by_the_same_member_raises_the_epoch_too() -> None:
    held = FREE.acquired_by("a")
    assert held.acquired_by("a").epoch == 2
    assert held.released().acquired_by("a").epoch == 2


def test_a_release_leaves_the_epoch() -> None:
    assert FREE.acquired_by("a").released() == Lease("billing", "orders", 5, None, 1)


def test_a_lease_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        FREE.epoch = 9  # type: ignore[misc]


@pytest.mark.parametrize("member", ["a", "b"])
@pytest.mark.parametrize("epoch", [0, 1, 2, 3])
def test_the_fence_lets_only_this_member_under_this_epoch_pass(member: str, epoch: int) -> None:
    held = FREE.acquired_by("b").acquired_by("a")
    assert held.permits(member, epoch) == ((member, epoch) == ("a", 2))


def test_a_released_lease_permits_nobody() -> None:
    released = FREE.acquired_by("a").released()
    assert not released.permits("a", 1)


@STEADY
@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=12))
def test_no_two_acquisitions_share_an_epoch_and_only_the_last_may_write(
    holders: list[str | None],
) -> None:
    lease, acquired = FREE, []
    for holder in holders:
        lease = lease.released() if holder is None else lease.acquired_by(holder)
        if holder is not None:
            acquired.append((holder, lease.epoch))
    assert [epoch for _, epoch in acquired] == list(range(1, len(acquired) + 1))
    permitted = [(member, epoch) for member, epoch in acquired if lease.permits(member, epoch)]
    held = bool(holders) and holders[-1] is not None
    assert permitted == acquired[-1:] * held

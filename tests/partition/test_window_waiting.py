"""Lanes that wait for the commit of their head: nothing of their key runs before it is in the store."""

from partition import Range
from partition.window import READY, Lane, Window
from tests.partition.window_trial import Row, read_on, window_of

KEY = "key"


def first_of(window: Window[Row]) -> Lane[Row]:
    lane = window.take()
    assert lane is not None
    return lane


def test_a_lane_goes_on_when_the_settlement_of_its_head_is_in_the_store() -> None:
    window = window_of(KEY, KEY)
    lane = first_of(window)
    window.hold(lane)
    assert window.settle_held(lane).offset == 1
    assert window.take() is None, "the next record of the key waits"
    progress = window.advance()
    assert progress is not None
    assert (progress.position, progress.records) == (1, 1)
    window.committed(progress)
    window.let_go(lane)
    assert lane.state is READY
    assert lane.head.offset == 2


def test_a_lane_that_was_the_last_of_its_key_is_forgotten() -> None:
    window = window_of(KEY)
    lane = first_of(window)
    window.hold(lane)
    window.settle_held(lane)
    window.let_go(lane)
    read_on(window, KEY)
    again = window.take()
    assert again is not None
    assert again is not lane


def test_what_comes_for_a_lane_that_waits_waits_too() -> None:
    window = window_of(KEY)
    lane = first_of(window)
    window.hold(lane)
    window.settle_held(lane)
    read_on(window, KEY)
    assert window.take() is None
    window.let_go(lane)
    assert window.take() is lane


def test_a_record_without_a_key_leaves_no_lane() -> None:
    window = window_of(None)
    lane = first_of(window)
    window.hold(lane)
    window.settle_held(lane)
    window.let_go(lane)
    assert window.take() is None


def test_a_withheld_record_is_said_to_be_settled_again() -> None:
    window = window_of(None, None, None)
    window.give_back(first_of(window))
    second = first_of(window)
    window.hold(second)
    window.settle_held(second)
    first = window.advance()
    assert first is not None
    assert first.settled == (Range(2, 2),)
    window.committed(first)
    assert not window.dirty
    window.settle_again(2)
    assert window.dirty
    again = window.advance()
    assert again is not None
    assert (again.position, again.settled, again.whole) == (0, (Range(2, 2),), False)
    window.committed(again)
    assert window.uncommitted == 0

"""A position and the ranges above it say exactly what is settled, and a successor goes on from there."""

from dataclasses import FrozenInstanceError
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition.ranges import Range
from partition.window import WHOLE_EVERY, Progress, Window
from tests.partition.window_trial import Log, Row, Stored, Trial, settle_next, window_of


def test_where_nothing_was_settled_there_is_no_progress() -> None:
    window = window_of("a", "b")
    window.take()
    assert not window.dirty
    assert window.advance() is None


def test_the_position_stays_below_the_lowest_unsettled_record() -> None:
    window = window_of("a", "b", "c", "d")
    first = window.take()
    settle_next(window, 2)
    assert window.advance() == Progress(1, 0, (Range(2, 3),), whole=True, records=2)
    assert first is not None
    window.settle(first)
    assert window.advance() == Progress(2, 3, (), whole=False, records=1)


def test_a_position_moves_only_with_a_progress() -> None:
    window = window_of("a")
    settle_next(window)
    assert window.position == 0
    window.advance()
    assert window.position == 1


def test_a_later_progress_names_only_what_was_settled_since() -> None:
    window = window_of(*"abcdefg")
    first = window.take()
    settle_next(window)
    window.advance()
    settle_next(window)
    fourth = window.take()
    settle_next(window, 2)
    assert window.advance() == Progress(2, 0, (Range(3, 3), Range(5, 6)), whole=False, records=3)
    assert first is not None
    assert fourth is not None
    window.settle(fourth)
    window.settle(first)
    assert window.advance() == Progress(3, 6, (), whole=False, records=2)


def test_the_first_progress_and_every_64th_after_it_is_whole() -> None:
    window = window_of("slow", *[None] * 300)
    window.take()
    whole = []
    for number in range(1, 300):
        settle_next(window)
        progress = window.advance()
        assert progress is not None
        assert progress.number == number
        assert progress.settled == (Range(2 if progress.whole else number + 1, number + 1),)
        if progress.whole:
            whole.append(number)
    assert whole == list(range(1, 300, WHOLE_EVERY)) == [1, 65, 129, 193, 257]


def test_a_progress_with_nothing_unsettled_is_whole_and_has_no_ranges() -> None:
    window = window_of("a", "b")
    lane = window.take()
    settle_next(window)
    window.advance()
    assert lane is not None
    window.settle(lane)
    assert window.advance() == Progress(2, 2, (), whole=True, records=1)


def test_the_position_moves_over_offsets_without_a_record() -> None:
    window: Window[Row] = Window(10)
    window.admit([Row(13, "a")], 20)
    window.take()
    assert window.advance() == Progress(1, 12, (Range(14, 20),), whole=True, records=0)
    assert window.advance() is None


def test_offsets_without_a_record_are_progress_too() -> None:
    window: Window[Row] = Window(10)
    window.admit([], 10)
    assert not window.dirty
    window.admit([], 14)
    assert window.advance() == Progress(1, 14, (), whole=True, records=0)


def test_a_slow_record_costs_one_gap_however_much_settles_above_it() -> None:
    window = window_of("slow", *[None] * 999)
    window.take()
    settle_next(window, 999)
    assert window.advance() == Progress(1, 0, (Range(2, 1000),), whole=True, records=999)


def test_records_are_uncommitted_until_their_progress_is_in_the_store() -> None:
    window = window_of("a", "b", "c")
    settle_next(window)
    first = window.advance()
    settle_next(window)
    second = window.advance()
    settle_next(window)
    counts = [window.uncommitted]
    for progress in (first, second, window.advance()):
        assert progress is not None
        assert not window.idle
        window.committed(progress)
        counts.append(window.uncommitted)
    assert counts == [3, 2, 1, 0]
    assert window.idle


def test_a_window_with_an_unsettled_record_is_not_idle() -> None:
    assert window_of().idle
    assert not window_of("a").idle


def test_a_progress_is_committed_once() -> None:
    window = window_of("a", "b")
    settle_next(window)
    progress = window.advance()
    assert progress is not None
    window.committed(progress)
    settle_next(window)
    with pytest.raises(AssertionError):
        window.committed(progress)


def test_a_progress_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Progress(1, 0, (), whole=True, records=0).position = 9  # type: ignore[misc]


# What the last owner has settled.


def test_what_was_inherited_is_in_the_first_progress_with_what_was_read() -> None:
    window: Window[Row] = Window(3, [Range(6, 7), Range(10, 12)])
    window.admit([Row(4, "a"), Row(5, "b"), Row(8, "c")], 8)
    window.take()
    settle_next(window)
    assert window.advance() == Progress(1, 3, (Range(5, 7), Range(10, 12)), whole=True, records=1)


def test_what_was_inherited_is_forgotten_as_the_cursor_passes_it() -> None:
    window: Window[Row] = Window(0, [Range(2, 3), Range(5, 9), Range(12, 14)])
    window.admit([Row(1, "a")], 6)
    assert (window.cursor, window.inherited) == (9, (Range(12, 14),))
    window.admit([Row(10, "b"), Row(11, "c"), Row(15, "d")], 15)
    assert (window.cursor, window.inherited) == (15, ())


def test_the_cursor_moves_over_what_is_settled_right_behind_what_was_read() -> None:
    window: Window[Row] = Window(3, [Range(5, 7), Range(9, 9)])
    window.admit([Row(4, "a")], 4)
    assert window.cursor == 7
    settle_next(window)
    assert window.advance() == Progress(1, 7, (Range(9, 9),), whole=True, records=1)


def test_what_is_settled_right_behind_the_position_belongs_to_it() -> None:
    window: Window[Row] = Window(3, [Range(4, 6)])
    assert (window.cursor, window.inherited) == (6, ())
    assert window.advance() == Progress(1, 6, (), whole=True, records=0)


def test_inherited_ranges_come_in_any_order_and_may_lie_below_the_position() -> None:
    window: Window[Row] = Window(4, [Range(9, 9), Range(1, 2), Range(6, 7), Range(8, 8)])
    assert window.inherited == (Range(6, 9),)


# Many records.


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(2, 120), st.randoms(use_true_random=False), st.floats(0, 1))
def test_settled_in_any_order_and_stored_at_any_time_nothing_is_lost_or_said_too_much(
    count: int, random: Random, often: float
) -> None:
    trial = Trial(Log([None] * count), Stored(), order="none")
    trial.admit(count)
    for _ in range(count):
        trial.take()
    for offset in random.sample(range(1, count + 1), count):
        trial.settle(offset)
        if random.random() < often:
            trial.save()
    trial.successor().finish()

"""Lanes run one record of a key at a time, and a window takes in no more than it has room for."""

import pytest

from partition.window import LaneState, Window
from tests.partition.window_trial import Row, read_on, settle_next, window_of


def next_offset(window: Window[Row]) -> int | None:
    lane = window.take()
    return None if lane is None else lane.head.offset


# Lanes.


def test_lanes_run_oldest_first_and_then_there_is_none() -> None:
    window = window_of("c", "a", "b", "a")
    assert [next_offset(window) for _ in range(4)] == [1, 2, 3, None]


def test_after_a_settlement_the_next_record_of_the_key_is_the_head() -> None:
    window = window_of("a", "b", "a")
    lane = window.take()
    assert lane is not None
    assert window.settle(lane)
    assert (lane.name, lane.head.offset) == ("a", 3)
    assert not window.settle(lane)


def test_a_record_that_is_read_while_its_lane_is_out_joins_it() -> None:
    window = window_of("a")
    lane = window.take()
    assert lane is not None
    read_on(window, "a")
    assert window.take() is None
    assert window.settle(lane)
    assert lane.head.offset == 2


def test_a_lane_that_is_given_back_goes_to_the_end_of_the_queue() -> None:
    window = window_of("a", "b", "a")
    lane = window.take()
    assert lane is not None
    window.give_back(lane)
    assert [next_offset(window) for _ in range(3)] == [2, 1, None]


def test_a_lane_that_is_given_back_cannot_settle_before_it_is_taken_again() -> None:
    window = window_of("a")
    lane = window.take()
    assert lane is not None
    window.give_back(lane)
    with pytest.raises(AssertionError):
        window.settle(lane)


def test_a_lane_that_is_held_does_not_run_until_it_is_given_back() -> None:
    window = window_of("a", "b")
    lane = window.take()
    assert lane is not None
    window.hold(lane)
    read_on(window, "a")
    assert [next_offset(window) for _ in range(2)] == [2, None]
    window.give_back(lane)
    assert next_offset(window) == 1


def test_a_key_whose_records_are_all_settled_begins_a_new_lane() -> None:
    window = window_of("a")
    settle_next(window)
    read_on(window, "a")
    assert next_offset(window) == 2


def test_records_without_a_key_are_lanes_of_their_own() -> None:
    window = window_of(None, "", None, "")
    assert [next_offset(window) for _ in range(4)] == [1, 2, 3, None]


def test_by_partition_all_records_are_one_lane() -> None:
    window = window_of("a", None, "b", order="partition")
    assert [next_offset(window) for _ in range(2)] == [1, None]


def test_without_order_each_record_is_a_lane() -> None:
    window = window_of("a", "a", "b", order="none")
    assert [next_offset(window) for _ in range(4)] == [1, 2, 3, None]


def test_failed_attempts_are_kept_while_the_head_waits_and_forgotten_with_it() -> None:
    window = window_of("a", "a")
    lane = window.take()
    assert lane is not None
    assert lane.attempts == 0
    lane.attempts = 2
    window.hold(lane)
    window.give_back(lane)
    assert window.take() is lane
    assert lane.attempts == 2
    window.settle(lane)
    assert lane.attempts == 0


def test_a_lane_is_ready_taken_or_held() -> None:
    window = window_of("a")
    lane = window.ready[0]
    states = [lane.state]
    window.take()
    states.append(lane.state)
    window.hold(lane)
    states.append(lane.state)
    assert states == [LaneState.READY, LaneState.TAKEN, LaneState.HELD]


# Barred lanes.


def test_a_barred_lane_does_not_run_until_it_is_unbarred() -> None:
    window = window_of("a", "b", "a", barred=["a"])
    assert [next_offset(window) for _ in range(2)] == [2, None]
    assert window.unbar("a")
    assert next_offset(window) == 1


def test_a_lane_that_is_unbarred_before_it_has_records_runs_like_any_other() -> None:
    window = window_of(barred=["a"])
    assert not window.unbar("a")
    read_on(window, "a")
    assert next_offset(window) == 1


def test_a_lane_that_is_not_barred_any_more_is_left_as_it_is() -> None:
    window = window_of("a", "b", barred=["a"])
    window.unbar("a")
    for _ in range(2):
        lane = window.take()
        assert lane is not None
        window.hold(lane)
    assert not window.unbar("a")
    assert not window.unbar("b")
    assert window.take() is None


def test_a_partition_can_be_barred_by_the_name_of_its_lane() -> None:
    window = window_of("a", "b", order="partition", barred=[""])
    assert next_offset(window) is None
    assert window.unbar("")
    assert next_offset(window) == 1


# Room.


def test_an_empty_window_has_room_for_its_limits() -> None:
    assert window_of(limit_records=8, limit_bytes=100).room() == (8, 100)


def test_a_window_has_room_again_once_it_is_no_more_than_half_full() -> None:
    window = window_of(*"abcde", limit_records=8)
    assert window.room() == (0, 0)
    settle_next(window)
    assert window.room()[0] == 4


def test_bytes_count_like_records() -> None:
    window: Window[Row] = Window(0, limit_bytes=100)
    window.admit([Row(1, "a", 11), Row(2, "b", 40)], 2)
    assert window.room() == (0, 0)
    settle_next(window)
    assert window.room() == (999, 60)
    window.admit([Row(3, "c", 10)], 3)
    assert window.room() == (998, 50)


def test_a_record_larger_than_the_window_is_admitted_to_an_empty_one() -> None:
    window: Window[Row] = Window(0, limit_records=1, limit_bytes=100)
    window.admit([Row(1, "a", 5000)], 1)
    assert window.room() == (0, 0)
    settle_next(window)
    assert window.room() == (1, 100)


def test_what_is_settled_and_not_committed_takes_room_at_a_quarter() -> None:
    window = window_of(*[None] * 15, limit_records=8)
    settle_next(window, 15)
    assert window.room()[0] == 5
    progress = window.advance()
    assert progress is not None
    assert window.room()[0] == 5
    window.committed(progress)
    assert window.room()[0] == 8


def test_a_store_that_cannot_be_written_to_stops_the_reader() -> None:
    window = window_of(limit_records=4)
    while window.room()[0]:
        read_on(window, None)
        settle_next(window)
        window.advance()
    assert window.uncommitted == 12


def test_what_settles_behind_a_slow_record_takes_no_room() -> None:
    window = window_of("slow")
    window.take()
    for _ in range(5000):
        read_on(window, None)
        settle_next(window)
        progress = window.advance()
        assert progress is not None
        window.committed(progress)
    assert window.room()[0] == 999
    assert (len(window), window.position, window.cursor) == (1, 0, 5001)


# What only a mistake of the caller could bring about.


@pytest.mark.parametrize(
    ("rows", "through"),
    [([], 4), ([Row(5)], 6), ([Row(7), Row(7)], 8), ([Row(8), Row(7)], 8), ([Row(6), Row(8)], 7)],
    ids=["back", "read-before", "twice", "descending", "beyond"],
)
def test_records_are_admitted_once_in_offset_order(rows: list[Row], through: int) -> None:
    window: Window[Row] = Window(5)
    with pytest.raises(AssertionError):
        window.admit(rows, through)


def test_only_the_head_of_a_taken_lane_settles() -> None:
    window = window_of("a")
    lane = window.ready[0]
    with pytest.raises(AssertionError):
        window.settle(lane)
    window.take()
    window.hold(lane)
    with pytest.raises(AssertionError):
        window.settle(lane)


def test_only_a_taken_lane_is_held_and_none_is_queued_twice() -> None:
    window = window_of("a")
    lane = window.ready[0]
    with pytest.raises(AssertionError):
        window.hold(lane)
    with pytest.raises(AssertionError):
        window.give_back(lane)


def test_a_lane_without_records_is_neither_held_nor_queued() -> None:
    window = window_of("a")
    lane = window.take()
    assert lane is not None
    window.settle(lane)
    with pytest.raises(AssertionError):
        window.hold(lane)
    with pytest.raises(AssertionError):
        window.give_back(lane)

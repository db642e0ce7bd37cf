"""A window reads past offsets that are not visible yet: what lies above them flows, and the position waits for them."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from partition.ranges import Range
from partition.window import Order, Progress, Window
from tests.holes import offsets_of
from tests.partition.hole_trial import HoleTrial, OverlappingLog
from tests.partition.window_trial import Row, Stored, settle_next


def rows(*offsets: int) -> list[Row]:
    return [Row(offset) for offset in offsets]


def progress_of(window: Window[Row]) -> Progress:
    progress = window.advance()
    assert progress is not None
    return progress


def around(*holes: Range, through: int = 10, **options: object) -> Window[Row]:
    """A window that has read and settled all up to an offset, but for holes."""
    window: Window[Row] = Window(0, **options)  # type: ignore[arg-type]
    offsets = [offset for offset in range(1, through + 1) if offset not in offsets_of(holes)]
    window.admit(rows(*offsets), through, holes)
    settle_next(window, len(offsets))
    return window


# The position and the ranges.


def test_what_lies_above_a_hole_flows_and_the_position_waits_below_it() -> None:
    window = around(Range(4, 5))
    assert progress_of(window) == Progress(1, 3, (Range(6, 10),), whole=True, records=8)
    assert (window.cursor, window.holes) == (10, (Range(4, 5),))


def test_an_open_hole_is_asked_for_again_and_moves_nothing() -> None:
    window = around(Range(4, 5))
    window.advance()
    window.admit([], 10, [Range(4, 5)])
    assert not window.dirty
    assert window.holes == (Range(4, 5),)


def test_a_hole_that_is_filled_is_a_record_like_any_other() -> None:
    window = around(Range(4, 4))
    window.advance()
    window.admit(rows(4), 10)
    assert not window.dirty
    settle_next(window)
    assert progress_of(window) == Progress(2, 10, (), whole=True, records=1)


def test_the_position_moves_on_when_a_hole_ends() -> None:
    window = around(Range(4, 5))
    window.advance()
    window.admit([], 10)
    assert window.dirty
    assert progress_of(window) == Progress(2, 10, (), whole=True, records=0)


def test_the_position_moves_to_what_is_left_of_a_hole() -> None:
    window = around(Range(4, 7))
    window.advance()
    window.admit([], 10, [Range(6, 6)])
    assert progress_of(window) == Progress(2, 5, (Range(7, 10),), whole=True, records=0)


def test_a_hole_that_is_filled_in_the_middle_is_two() -> None:
    window = around(Range(4, 6))
    window.admit(rows(5), 10, [Range(4, 4), Range(6, 6)])
    settle_next(window)
    assert progress_of(window) == Progress(1, 3, (Range(5, 5), Range(7, 10)), whole=True, records=8)


def test_a_hole_that_ends_above_the_position_is_said_by_a_whole_progress() -> None:
    window = around(Range(2, 2), Range(5, 6))
    window.advance()
    window.admit(rows(11), 11, [Range(2, 2)])
    assert window.dirty
    assert progress_of(window) == Progress(2, 1, (Range(3, 10),), whole=True, records=0)
    settle_next(window)
    assert progress_of(window) == Progress(3, 1, (Range(11, 11),), whole=False, records=1)


def test_a_hole_that_is_only_filled_is_said_like_any_settlement() -> None:
    window = around(Range(2, 2), Range(5, 6))
    window.advance()
    window.admit(rows(5), 10, [Range(2, 2), Range(6, 6)])
    settle_next(window)
    assert progress_of(window) == Progress(2, 1, (Range(5, 5),), whole=False, records=1)


def test_with_holes_and_nothing_unsettled_a_progress_names_only_what_was_settled_since() -> None:
    window = around(Range(2, 2))
    window.advance()
    window.admit(rows(11), 11, [Range(2, 2)])
    settle_next(window)
    assert progress_of(window) == Progress(2, 1, (Range(11, 11),), whole=False, records=1)


def test_a_record_out_of_a_hole_is_the_lowest_unsettled_one() -> None:
    window: Window[Row] = Window(0)
    window.admit(rows(1, 3), 3, [Range(2, 2)])
    settle_next(window)
    window.admit(rows(2, 5), 5)
    assert progress_of(window) == Progress(1, 1, (Range(4, 4),), whole=True, records=1)


# A former owner.


def test_holes_lie_between_what_a_former_owner_settled() -> None:
    window: Window[Row] = Window(3, [Range(6, 7), Range(9, 9)])
    window.admit(rows(11), 11, [Range(4, 5), Range(8, 8), Range(10, 10)])
    assert not window.dirty
    settle_next(window)
    assert progress_of(window) == Progress(1, 3, (Range(6, 7), Range(9, 9), Range(11, 11)), whole=True, records=1)


def test_the_cursor_moves_over_what_was_settled_and_holes_below_it_stay_open() -> None:
    window: Window[Row] = Window(3, [Range(6, 7)])
    window.admit([], 5, [Range(4, 5)])
    assert (window.cursor, window.holes, window.dirty) == (7, (Range(4, 5),), False)


# Lanes.


def test_a_record_out_of_a_hole_joins_the_end_of_the_queue() -> None:
    window: Window[Row] = Window(0)
    window.admit([Row(1, "a"), Row(3, "b")], 3, [Range(2, 2)])
    window.admit([Row(2, "c"), Row(4, "a")], 4)
    assert [lane.name for lane in window.ready] == ["a", "b", "c"]


def test_a_record_out_of_a_hole_joins_the_lane_of_its_key() -> None:
    window: Window[Row] = Window(0)
    window.admit([Row(1, "a"), Row(3, "b")], 3, [Range(2, 2)])
    window.admit([Row(2, "a")], 3)
    lane = window.take()
    assert lane is not None
    assert window.settle(lane)
    assert lane.head.offset == 2


def test_by_partition_the_cursor_does_not_pass_a_hole() -> None:
    window: Window[Row] = Window(0, order="partition")
    window.admit(rows(1), 1, [Range(2, 3)])
    assert (window.cursor, window.holes) == (1, (Range(2, 3),))
    window.admit(rows(2), 2, [Range(3, 3)])
    window.admit(rows(4), 4)
    lane = window.take()
    assert lane is not None
    assert [row.offset for row in lane.items] == [1, 2, 4]


# What only a mistake of the store could bring about.


def mistaken(*admitted: Row, through: int = 10, holes: tuple[Range, ...] = (), order: Order = "key") -> None:
    """To a window that has read 1 to 10, but for 4 and 5, and inherits 12."""
    window: Window[Row] = Window(0, [Range(12, 12)], order=order)
    read = [Row(offset, "a") for offset in (1, 2, 3, *range(6, 11)) if order != "partition" or offset < 4]
    window.admit(read, 3 if order == "partition" else 10, [Range(4, 5)])
    with pytest.raises(AssertionError):
        window.admit(admitted, through, holes)


def test_below_the_cursor_records_come_only_out_of_holes() -> None:
    mistaken(Row(3, "b"))
    mistaken(Row(4, "b"), Row(6, "b"), holes=(Range(5, 5),))


def test_records_out_of_holes_come_in_offset_order() -> None:
    mistaken(Row(5, "b"), Row(4, "c"))
    mistaken(Row(4, "b"), Row(4, "c"))
    mistaken(Row(11, "b"), Row(4, "c"), through=11)


def test_a_key_has_no_record_in_a_hole_below_one_that_was_read() -> None:
    mistaken(Row(4, "a"), holes=(Range(5, 5),))


def test_a_reader_goes_back_only_into_holes() -> None:
    mistaken(Row(4, "b"), through=5)


@pytest.mark.parametrize(
    "holes",
    [[(3, 4)], [(7, 7)], [(5, 6)], [(5, 5), (4, 4)], [(4, 4), (4, 5)], [(5, 4)], [(12, 12)], [(4, 5), (14, 14)]],
    ids=["wider", "settled", "further", "descending", "overlapping", "empty", "inherited", "beyond"],
)
def test_a_hole_is_what_was_one_or_lies_above_the_cursor(holes: list[tuple[int, int]]) -> None:
    mistaken(through=13, holes=tuple(Range(*hole) for hole in holes))


def test_a_hole_holds_no_record_that_is_read() -> None:
    mistaken(Row(4, "b"), holes=(Range(4, 5),))
    mistaken(Row(13, "b"), through=15, holes=(Range(4, 5), Range(13, 14)))


def test_by_partition_nothing_is_read_beyond_a_hole() -> None:
    mistaken(Row(6, "b"), through=6, holes=(Range(4, 5),), order="partition")


# Many transactions.


KEYS = ["a", "b", "c", "d", "", None, None]


class Overlapping(RuleBasedStateMachine):
    """Transactions that write, commit, roll back whole or in part, and the owners that read past them."""

    @initialize(
        order=st.sampled_from(["key", "key", "none", "partition"]),
        records=st.integers(2, 20),
        patience=st.integers(2, 12),
    )
    def begin(self, order: Order, records: int, patience: int) -> None:
        self.trial = HoleTrial(OverlappingLog(), Stored(), order=order, limit_records=records)
        self.patience = patience
        self.commits = 0

    @invariant()
    def a_window_holds_no_more_than_its_limit(self) -> None:
        assert sum(map(len, self.trial.lanes.values())) <= self.trial.limit_records

    @precondition(lambda self: len(self.trial.unread()) < 10)
    @rule(writes=st.lists(st.tuples(st.integers(0, 4), st.sampled_from(KEYS)), min_size=4, max_size=10))
    def write(self, writes: list[tuple[int, str | None]]) -> None:
        for transaction, key in writes:
            if self.trial.log.may_write(transaction, key):
                self.trial.write(transaction, key)

    @precondition(lambda self: self.trial.log.transactions)
    @rule(data=st.data())
    def commit_one(self, data: st.DataObject) -> None:
        self.trial.end(data.draw(st.sampled_from([*self.trial.log.transactions])), ())

    @precondition(lambda self: self.trial.log.transactions)
    @rule(data=st.data())
    def roll_back_whole_or_in_part(self, data: st.DataObject) -> None:
        transaction, rows = data.draw(st.sampled_from([*self.trial.log.transactions.items()]))
        self.trial.end(transaction, data.draw(st.sets(st.sampled_from([row.offset for row in rows]), min_size=1)))

    @precondition(lambda self: self.trial.would_read() and self.trial.window.room()[0])
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        most = self.trial.window.room()[0]
        self.trial.admit(data.draw(st.sampled_from([most, 1, (most + 1) // 2])))

    @precondition(lambda self: self.trial.log.dead != self.trial.log.rolled_back and self.trial.window.room()[0])
    @rule()
    def look_and_read(self) -> None:
        self.trial.look()
        self.trial.admit(self.trial.window.room()[0])

    @precondition(lambda self: self.trial.queue)
    @rule(count=st.integers(1, 4))
    def take(self, count: int) -> None:
        for _ in range(count):
            self.trial.take()

    @precondition(lambda self: self.trial.out)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        for name in data.draw(st.lists(st.sampled_from([*self.trial.out]), min_size=1, unique=True)):
            self.trial.settle(name)

    @precondition(lambda self: self.trial.out)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        self.trial.give_back(data.draw(st.sampled_from([*self.trial.out])))

    @precondition(lambda self: self.trial.barred)
    @rule(data=st.data())
    def unbar(self, data: st.DataObject) -> None:
        self.trial.unbar(data.draw(st.sampled_from(self.trial.barred)))

    @precondition(lambda self: self.trial.window.dirty)
    @rule()
    def advance(self) -> None:
        self.trial.advance()

    @precondition(lambda self: self.trial.progresses)
    @rule()
    def commit(self) -> None:
        self.trial.commit()
        self.commits += 1

    @precondition(lambda self: self.commits >= self.patience)
    @rule()
    def give_way(self) -> None:
        """The owner ends, whatever it was at; where its handlers still run, the next one waits for them."""
        self.trial = self.trial.successor(barred=[name for name in self.trial.out if isinstance(name, str)])
        self.commits = 0

    def teardown(self) -> None:
        if hasattr(self, "trial"):
            self.trial.finish()


TestOverlappingTransactions = Overlapping.TestCase
TestOverlappingTransactions.settings = settings(
    derandomize=True,
    deadline=None,
    max_examples=100,
    stateful_step_count=100,
    report_multiple_bugs=False,
)

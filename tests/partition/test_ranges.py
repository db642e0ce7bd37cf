"""Ranges say what sets of offsets would say."""

from hypothesis import given, settings
from hypothesis import strategies as st

from partition.ranges import Range, covers, cut, merge, touches, union
from tests.holes import offsets_of
from tests.partition.window_trial import runs_of

STEADY = settings(derandomize=True, deadline=None, max_examples=200)


def test_neighbours_share_a_range() -> None:
    assert merge([]) == []
    assert merge(iter([3])) == [Range(3, 3)]
    assert merge([1, 2, 3, 5, 7, 8]) == [Range(1, 3), Range(5, 5), Range(7, 8)]


offsets = st.sets(st.integers(1, 40))


@STEADY
@given(offsets)
def test_ascending_offsets_merge_into_the_fewest_ranges(chosen: set[int]) -> None:
    assert merge(sorted(chosen)) == runs_of(chosen)


def test_a_union_is_cut_to_what_lies_above() -> None:
    ranges = [Range(8, 9), Range(1, 3), Range(5, 6)]
    assert union(ranges, 0) == (Range(1, 3), Range(5, 6), Range(8, 9))
    assert union(ranges, 5) == (Range(6, 6), Range(8, 9))
    assert union(ranges, 6) == (Range(8, 9),)
    assert union(ranges, 9) == ()


def test_a_union_joins_what_overlaps_touches_or_lies_within() -> None:
    assert union([Range(5, 6), Range(1, 4)], 0) == (Range(1, 6),)
    assert union([Range(1, 4), Range(3, 8)], 0) == (Range(1, 8),)
    assert union([Range(1, 9), Range(3, 4), Range(9, 9)], 0) == (Range(1, 9),)


@STEADY
@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6))), st.integers(0, 45))
def test_a_union_is_the_fewest_ranges_for_the_same_offsets(pairs: list[tuple[int, int]], above: int) -> None:
    ranges = [Range(low, low + more) for low, more in pairs]
    assert union(ranges, above) == tuple(runs_of(o for o in offsets_of(ranges) if o > above))


@STEADY
@given(offsets, offsets, st.integers(1, 31), st.integers(0, 5))
def test_ranges_are_cut_covered_and_touched_as_their_offsets_are(
    chosen: set[int], cuts: set[int], low: int, more: int
) -> None:
    ranges, holes = [[Range(*run) for run in runs_of(one)] for one in (chosen, cuts)]
    asked = set(range(low, low + more + 1))
    assert cut(ranges, holes) == runs_of(chosen - cuts)
    assert covers(ranges, low, low + more) == (asked <= chosen)
    assert touches(ranges, low, low + more) == bool(asked & chosen)

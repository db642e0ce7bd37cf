"""Ranges of offsets, and what is done with many of them."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol


class Range(NamedTuple):
    """Offsets from `low` to `high`, both included."""

    low: int
    high: int


class Hole(Protocol):
    """Offsets from `low` to `high`, none of them visible, that may yet become records. A range is one."""

    @property
    def low(self) -> int: ...
    @property
    def high(self) -> int: ...


_high = attrgetter("high")


def merge(offsets: Iterable[int]) -> list[Range]:
    """Ascending offsets as ranges; neighbours share one."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset == runs[-1][1] + 1:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
    return [Range(low, high) for low, high in runs]


def union(ranges: Iterable[Range], above: int) -> tuple[Range, ...]:
    """Ranges in any order as disjoint ascending ones, cut to what lies above an offset."""
    joined: list[Range] = []
    for low, high in sorted(ranges):
        if high <= above:
            continue
        low = max(low, above + 1)
        if joined and low <= joined[-1].high + 1:
            joined[-1] = Range(joined[-1].low, max(joined[-1].high, high))
        else:
            joined.append(Range(low, high))
    return tuple(joined)


def cut(ranges: Iterable[Hole], holes: Sequence[Hole]) -> list[Range]:
    """Ranges without what holes cover. Both are ascending and disjoint, and so is the answer."""
    rest: list[Range] = []
    at = 0
    for low, high in ((one.low, one.high) for one in ranges):
        while at < len(holes) and holes[at].low <= high:
            if holes[at].low > low:
                rest.append(Range(low, holes[at].low - 1))
            low = max(low, holes[at].high + 1)
            if holes[at].high > high:
                break  # It may reach into the next range too.
            at += 1
        if low <= high:
            rest.append(Range(low, high))
    return rest


def covers(ranges: Sequence[Range], low: int, high: int) -> bool:
    """Whether one of the ascending ranges holds all offsets from `low` to `high`."""
    at = bisect_left(ranges, low, key=_high)
    return at < len(ranges) and ranges[at].low <= low and high <= ranges[at].high


def touches(ranges: Sequence[Range], low: int, high: int) -> bool:
    """Whether one of the ascending ranges holds any offset from `low` to `high`."""
    at = bisect_left(ranges, low, key=_high)
    return at < len(ranges) and ranges[at].low <= high

"""Every interleaving of every small case leaves the window where the plainest account says it must be.

A case is what the first offsets of a partition hold: records under keys, nothing, and records that an earlier owner has
settled. From its start every step that is possible is taken, from where that leads every step again, and so on until
nothing new turns up; `Trial` checks all that is promised after each. A state is a pickle: it makes the copies that
steps are tried on, and it holds the window's innards, so that states count as one only when nothing tells them apart.
"""

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, product
from typing import TypeVar

import pytest

from partition.window import Order
from tests.partition.hole_trial import HoleTrial, OverlappingLog
from tests.partition.window_trial import ABSENT, Log, Stored, Trial

LONG = bool(os.environ.get("STREAMS_LONG"))

DONE = "done"
"""In a case: a record that an earlier owner has settled."""

T = TypeVar("T", bound=Trial)
Case = tuple[str | None, ...]
Script = tuple[tuple[int, str | None], ...]
Step = tuple[str, tuple[object, ...]]


def cases(length: int, places: Iterable[str | None]) -> Iterator[Case]:
    """All cases of a length; of those that differ only in which key is called what, one."""
    for case in product(places, repeat=length):
        keys = [key for key in dict.fromkeys(case) if key in ("a", "b")]
        if keys == sorted(keys) and keys != ["b"]:
            yield case


def start_of(case: Case, order: Order, barred: Iterable[str] = ()) -> Trial:
    done = [offset for offset, place in enumerate(case, start=1) if place == DONE]
    return Trial(Log(case), Stored(0, done), order=order, barred=barred)


def reading(trial: Trial) -> Iterator[Step]:
    """Read one record or more, or all there are and on to the end."""
    if trial.through < trial.log.end:
        yield from (("admit", (count,)) for count in range(1, len(trial.unread()) + 2))


def running(trial: Trial) -> Iterator[Step]:
    """Let a lane run, and settle what is out."""
    if trial.queue:
        yield "take", ()
    yield from (("settle", (name,)) for name in trial.out)


def returning(trial: Trial) -> Iterator[Step]:
    """Put lanes back, or hold them, or open them."""
    yield from (("give_back", (name,)) for name in [*trial.out, *trial.held])
    yield from (("hold", (name,)) for name in trial.out)
    yield from (("unbar", (name,)) for name in trial.barred)


def saving(trial: Trial) -> Iterator[Step]:
    """Advance, and have that in the store at once."""
    if trial.window.dirty:
        yield "save", ()


def saving_apart(trial: Trial) -> Iterator[Step]:
    """Advance, and have it in the store after something else, or after later ones were made."""
    if trial.window.dirty:
        yield "advance", ()
    if trial.progresses:
        yield "commit", ()


def explore(start: T, *possible: Callable[[T], Iterable[Step]]) -> None:
    """Take all possible steps from everywhere; where none is left, all that was done can be stored.

    Wherever it ends before that, a successor takes up what is left, no more and no less.
    """
    states = [pickle.dumps(start)]
    seen = set(states)
    left: set[tuple[int, frozenset[int], bytes]] = set()
    while states:
        state = states.pop()
        trial: T = pickle.loads(state)
        steps = [step for kind in possible for step in kind(trial)]
        if not steps:
            assert not trial.lanes
            trial.finish()
        if (place := (trial.stored.position, trial.stored.above, pickle.dumps(trial.log))) not in left:
            left.add(place)
            trial.successor().finish()
        for verb, arguments in steps:
            trial = pickle.loads(state)
            getattr(trial, verb)(*arguments)
            then = pickle.dumps(trial)
            if then not in seen:
                seen.add(then)
                states.append(then)


def test_three_offsets_keep_order_and_account_whatever_happens() -> None:
    for case in cases(3, ["a", "b", None, ABSENT, DONE]):
        explore(start_of(case, "key"), reading, running, returning, saving_apart)


@pytest.mark.parametrize("barred", ["a", "b"])
def test_a_barred_lane_keeps_order_and_account_whatever_happens(barred: str) -> None:
    for case in cases(3, ["a", "b", None]):
        explore(start_of(case, "key", [barred]), reading, running, returning, saving)


@pytest.mark.parametrize("order", ["partition", "none"])
def test_the_other_orders_keep_order_and_account_whatever_happens(order: Order) -> None:
    for case in cases(3, ["a", "b", ABSENT, DONE]):
        explore(start_of(case, order), reading, running, returning, saving_apart)


@pytest.mark.parametrize("length", [4, pytest.param(5, marks=pytest.mark.long)])
def test_more_records_of_which_some_share_a_key_keep_order_whatever_happens(length: int) -> None:
    for case in cases(length, ["a", "b", None]):
        if case.count("a") > 1 or case.count("b") > 1:
            explore(start_of(case, "key"), reading, running, returning, *[saving] * LONG)


@pytest.mark.parametrize("length", [5, pytest.param(6, marks=pytest.mark.long)])
def test_more_offsets_settled_in_any_order_are_accounted_for_exactly(length: int) -> None:
    for case in cases(length, ["a", ABSENT, DONE]):
        explore(start_of(case, "none"), reading, running, saving)


# Holes.


def scripts(length: int, keys: Iterable[str | None], most: int) -> Iterator[Script]:
    """Who writes each offset and under which key, by at most so many transactions; one of those that are alike."""
    for numbers in product(range(most), repeat=length):
        if list(dict.fromkeys(numbers)) == sorted(set(numbers)) and numbers[0] == 0:
            for case in cases(length, keys):
                yield tuple(zip(numbers, case, strict=True))


def overlapping(script: Script) -> Callable[[HoleTrial], Iterator[Step]]:
    """Write the next row; end a transaction, with all it wrote, nothing, or a part; find out what will never be."""

    def steps(trial: HoleTrial) -> Iterator[Step]:
        log = trial.log
        if log.written < len(script) and log.may_write(*script[log.written]):
            yield "write", script[log.written]
        for number, rows in log.transactions.items():
            for count in range(len(rows) + 1):
                yield from (("end", (number, lost)) for lost in combinations([row.offset for row in rows], count))
        if log.dead != log.rolled_back:
            yield "look", ()

    return steps


def reading_around_holes(trial: HoleTrial) -> Iterator[Step]:
    """Read one record or more, or none and find holes ended."""
    if trial.would_read():
        yield from (("admit", (count,)) for count in range(1, len(trial.unread()) + 2))


OVERLAPPING: list[tuple[Order, int, list[str | None]]] = [
    ("key", 2, ["a", None]),
    ("partition", 3, [None]),
    ("none", 3, [None]),
]
LARGER: list[tuple[Order, int, list[str | None]]] = [
    ("key", 3, ["a", None]),
    ("key", 3, ["a", "b", None]),
    ("partition", 4, [None]),
]


@pytest.mark.parametrize(
    ("order", "length", "keys"), [*OVERLAPPING, *(pytest.param(*one, marks=pytest.mark.long) for one in LARGER)]
)
def test_transactions_that_end_in_any_order_keep_order_and_account_whatever_happens(
    order: Order, length: int, keys: list[str | None]
) -> None:
    for script in scripts(length, keys, 3):
        start = HoleTrial(OverlappingLog(), Stored(), order=order)
        explore(start, overlapping(script), reading_around_holes, running, saving)

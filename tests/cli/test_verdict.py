"""The verdict of the demo: it lets pass what may happen, and finds every kind of what may not."""

import itertools
import random
from collections.abc import Sequence

import pytest

from streams.cli.demo.notes import Run
from streams.cli.demo.verdict import Verdict, judge, recovery_seconds

PUBLISHED = {"a": [0, 2, 4, 6], "b": [1, 3, 5]}


def run(
    number: int, at: float, *, worker: str = "w1", epoch: int = 1, lasts: float | None = 0.5, **more: object
) -> Run:
    """A run of a record, under its key, that begins at `at`; without an end when it `lasts` None."""
    made = Run(
        worker=worker,
        key="a" if number % 2 == 0 else "b",
        number=number,
        partition=3,
        epoch=epoch,
        started=at,
        ended=None if lasts is None else at + lasts,
        done=lasts is not None,
    )
    return made._replace(**more)  # type: ignore[arg-type]


def in_turn(*numbers: int, start: float = 0.0, worker: str = "w1", epoch: int = 1) -> list[Run]:
    """Runs one after another, a second each."""
    return [run(number, start + place, worker=worker, epoch=epoch) for place, number in enumerate(numbers)]


def verdict(*runs: Run, deaths: dict[str, float] | None = None) -> Verdict:
    return judge(PUBLISHED, runs, deaths or {})


GOOD = in_turn(0, 1, 2, 3, 4, 5, 6)


# What may happen


def test_every_record_once_and_in_order_is_good() -> None:
    made = verdict(*GOOD)
    assert made == Verdict(handled=7, duplicates=0, lost=0, faults=())
    assert made.good


def test_keys_may_overlap_each_other() -> None:
    together = [run(number, float(number // 2)) for number in range(7)]
    assert verdict(*together).good


def test_the_order_of_the_notes_does_not_matter() -> None:
    assert verdict(*random.Random(1).sample(GOOD, len(GOOD))).good


def test_a_killed_workers_tail_may_be_repeated_in_order() -> None:
    before = [*in_turn(0, 1, 2, 3, 4), run(6, 5.0, lasts=None)]
    after = in_turn(2, 4, 6, 5, start=20.0, worker="w2", epoch=2)
    made = verdict(*before, *after, deaths={"w1": 5.1})
    assert made == Verdict(handled=7, duplicates=3, lost=0, faults=())


def test_a_tail_may_be_repeated_more_than_once() -> None:
    runs = [
        *in_turn(0, 2, 4),
        *in_turn(2, 4, start=10.0, worker="w2", epoch=2),
        *in_turn(2, 4, 6, 1, 3, 5, start=20.0, worker="w3", epoch=5),
    ]
    assert verdict(*runs) == Verdict(handled=7, duplicates=4, lost=0, faults=())


def test_a_partition_that_is_handed_over_goes_on_where_it_was() -> None:
    runs = [*in_turn(0, 1, 2), *in_turn(3, 4, start=10.0, worker="w2", epoch=2), *in_turn(5, 6, start=20.0, epoch=3)]
    assert verdict(*runs).good


def test_a_cancelled_run_is_repeated() -> None:
    cancelled = run(2, 1.0, done=False)
    runs = [run(0, 0.0), cancelled, *in_turn(2, 4, 6, 1, 3, 5, start=10.0, worker="w2", epoch=2)]
    assert verdict(*runs) == Verdict(handled=7, duplicates=1, lost=0, faults=())


# What may not


def test_a_record_that_never_ran_is_lost() -> None:
    made = verdict(*GOOD[:-1])
    assert (made.handled, made.lost, made.good) == (6, 1, False)


def test_a_record_whose_runs_never_returned_is_lost() -> None:
    made = verdict(*GOOD[:-1], run(6, 6.0, lasts=None))
    assert (made.handled, made.lost) == (6, 1)
    made = verdict(*GOOD[:-1], run(6, 6.0, done=False))
    assert (made.handled, made.lost) == (6, 1)


@pytest.mark.parametrize(
    ("why", "runs"),
    [
        ("started first, but 1", in_turn(2, 0)),
        ("not the next", in_turn(0, 4, 2)),
        ("not the next", in_turn(0, 2, 2)),
        ("not the next", in_turn(0, 2, 0)),
        ("had to come before", [*in_turn(0), *in_turn(4, start=10.0, worker="w2", epoch=2)]),
        # A record that did not return is not settled, so it may not be passed over.
        ("had to come before", [run(0, 0.0, lasts=None), *in_turn(2, start=10.0, worker="w2", epoch=2)]),
        ("not the next", [run(0, 0.0, done=False), *in_turn(2, start=1.0)]),
        # What was settled when the last epoch began is settled for good.
        (
            "settled before the last epoch",
            [*in_turn(0, 2), *in_turn(4, start=10.0, worker="w2", epoch=2), *in_turn(2, start=20.0, epoch=3)],
        ),
        # What the last epoch did not get to is still ahead, although the one before it had.
        (
            "had to come before",
            [*in_turn(0, 2, 4), *in_turn(0, start=10.0, worker="w2", epoch=2), *in_turn(4, start=20.0, epoch=3)],
        ),
        ("not published under this key", in_turn(8)),
        ("not published under this key", [run(0, 0.0, key="c")]),
        ("was in partition 3", [run(0, 0.0), run(2, 1.0, partition=4)]),
    ],
)
def test_a_key_out_of_order_is_found(why: str, runs: Sequence[Run]) -> None:
    faults = verdict(*runs, deaths={"w1": 1.0}).faults
    assert len(faults) >= 1
    assert why in str(faults[0])


def test_two_members_that_run_one_key_at_once_are_found() -> None:
    first, second = run(0, 0.0, lasts=2.0), run(2, 1.0, worker="w2", epoch=2)
    (fault,) = verdict(first, second).faults
    assert fault.run == second
    assert "had not ended" in fault.why


def test_the_same_record_in_two_members_at_once_is_found() -> None:
    (fault,) = verdict(run(0, 0.0, lasts=2.0), run(0, 1.0, worker="w2", epoch=2)).faults
    assert "had not ended" in fault.why


def test_one_member_that_runs_a_key_twice_at_once_is_found() -> None:
    (fault,) = verdict(run(0, 0.0, lasts=2.0), run(2, 1.0)).faults
    assert "had not ended" in fault.why


def test_a_long_run_is_not_forgotten_over_a_short_one() -> None:
    faults = verdict(run(0, 0.0, lasts=9.0), run(2, 1.0, lasts=0.1), run(4, 2.0)).faults
    assert [fault.run.number for fault in faults] == [2, 4]


def test_a_run_without_an_end_lasts_until_its_process_is_dead() -> None:
    unended, next_one = run(0, 0.0, lasts=None), run(0, 5.0, worker="w2", epoch=2)
    assert verdict(unended, next_one, deaths={"w1": 4.9}).faults == ()
    assert "had not ended" in verdict(unended, next_one, deaths={"w1": 5.1}).faults[0].why
    assert "had not ended" in verdict(unended, next_one).faults[0].why


def test_two_workers_under_one_epoch_are_found() -> None:
    (fault,) = verdict(run(0, 0.0), run(2, 1.0, worker="w2")).faults
    assert "the epoch is that of w1" in fault.why


def test_a_start_under_an_epoch_that_has_passed_is_found_across_keys() -> None:
    (fault,) = verdict(run(0, 0.0), run(2, 1.0, worker="w2", epoch=2), run(1, 2.0)).faults
    assert fault.run.number == 1
    assert "after epoch 2 had begun" in fault.why


def test_epochs_of_different_partitions_do_not_meet() -> None:
    here = [run(number, float(number), epoch=9) for number in (0, 2, 4, 6)]
    there = [run(number, float(number), partition=1, worker="w2") for number in (1, 3, 5)]
    assert verdict(*here, *there).good


def test_of_all_orders_within_an_epoch_only_the_published_one_passes() -> None:
    good = [numbers for numbers in itertools.permutations([0, 2, 4, 6]) if not verdict(*in_turn(*numbers)).faults]
    assert good == [(0, 2, 4, 6)]


def test_over_two_epochs_only_a_repeated_tail_passes() -> None:
    """All that two epochs can run of a key's four records: a prefix first, then from within it, or next to it, on."""
    some = [numbers for count in range(1, 5) for numbers in itertools.permutations([0, 2, 4, 6], count)]
    good = {
        (first, second)
        for first in some
        for second in some
        if not verdict(*in_turn(*first), *in_turn(*second, start=10.0, worker="w2", epoch=2)).faults
    }
    key = (0, 2, 4, 6)
    assert good == {
        (key[:end], key[begin:last]) for end in range(1, 5) for begin in range(end + 1) for last in range(begin + 1, 5)
    }


# Recovery


def recovered(*runs: Run, partitions: Sequence[int] = (3, 4)) -> float | None:
    return recovery_seconds(runs, killed_at=10.0, victims=["w1"], partitions=partitions)


def test_recovery_ends_with_the_first_start_in_the_last_partition() -> None:
    after = [run(0, 12.0, worker="w2"), run(2, 13.0, worker="w2"), run(1, 15.5, worker="w3", partition=4)]
    assert recovered(*after) == 5.5


def test_recovery_counts_neither_the_victim_nor_what_was_before_nor_other_partitions() -> None:
    runs = [run(0, 9.0, worker="w2"), run(0, 10.1), run(2, 11.0, worker="w2"), run(1, 19.0, worker="w2", partition=5)]
    assert recovered(*runs) == 1.0


def test_without_work_in_the_victims_partitions_there_is_no_recovery() -> None:
    assert recovered() is None
    assert recovered(run(0, 12.0, worker="w2"), partitions=()) is None

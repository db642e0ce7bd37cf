"""Workers that are killed, stopped, told to stop, or blocked: what becomes of their partitions."""

import signal
from collections import Counter
from collections.abc import Callable

import pytest

from streams.errors import MigrationNeeded
from tests.system.fleet import ON_EACH, Fleet, until
from tests.system.journal import Journal

MakeFleet = Callable[..., Fleet]


def owners(fleet: Fleet) -> dict[int, str | None]:
    """Who holds each partition of the group; empty before there is a database."""
    try:
        groups = fleet.groups()
    except MigrationNeeded:
        return {}
    return {p.partition: p.owner for p in groups["first"].partitions} if "first" in groups else {}


def shared_by(fleet: Fleet, count: int) -> bool:
    """Whether all partitions are held, by so many members and evenly, so that none moves any more."""
    holders = Counter(owners(fleet).values())
    return len(holders) == count and None not in holders and max(holders.values()) - min(holders.values()) <= 1


def items(count: int, *, keys: int = 50, start: int = 0) -> list[tuple[str, int]]:
    """Numbers over keys."""
    return [(f"key-{number % keys}", number) for number in range(start, start + count)]


def check(fleet: Fleet, count: int) -> Journal:
    """Wait until all is handled and committed, and look for what may not have happened."""
    until(lambda: fleet.handled(count), f"{count} records handled\n{fleet.errors()[-2000:]}")
    until(lambda: (fleet.groups()["first"].lag, fleet.groups()["first"].parked) == (0, 0), "all settled")
    journal = fleet.journal()
    assert journal.violations(fleet.published, ended=fleet.ended) == []
    assert fleet.doubled() == {key: [n * 2 for n in numbers] for key, numbers in fleet.published.items()}
    return journal


@ON_EACH
def test_partitions_are_shared_evenly_and_nothing_is_repeated(fleet_of: MakeFleet) -> None:
    fleet = fleet_of()
    fleet.publish(items(500))
    fleet.start(3)
    until(lambda: shared_by(fleet, 3), "three members share the partitions")
    fleet.publish(items(500, start=500))
    journal = check(fleet, 1000)
    counts = [list(owners(fleet).values()).count(owner) for owner in set(owners(fleet).values())]
    assert sorted(counts) == [2, 3, 3]
    assert len(journal.all()) == 1000, "a handover repeats nothing"


@ON_EACH
def test_a_killed_workers_partitions_run_elsewhere_within_its_time_to_live_and_a_second(fleet_of: MakeFleet) -> None:
    fleet = fleet_of(lease_seconds=2, handler_seconds=0.005)
    fleet.publish(items(300))
    first, _ = fleet.start(2)
    until(lambda: shared_by(fleet, 2), "two members share the partitions")
    victim = next(m.member for m in fleet.members() if m.pid == first.pid)
    partitions = {p for p, owner in owners(fleet).items() if owner == victim}
    killed_at = fleet.kill(first)
    fleet.publish(items(300, start=300))
    journal = check(fleet, 600)
    starts: dict[int, float] = {}
    for run in journal.all():
        if run.partition in partitions and run.pid != first.pid and run.started > killed_at:
            starts.setdefault(run.partition, run.started - killed_at)
    assert starts.keys() == partitions
    assert max(starts.values()) < 2 + 1


@ON_EACH
def test_a_worker_stopped_for_longer_than_its_lease_changes_nothing_when_it_goes_on(fleet_of: MakeFleet) -> None:
    fleet = fleet_of(lease_seconds=1, handler_seconds=0.3)
    first, _ = fleet.start(2)
    until(lambda: shared_by(fleet, 2), "two members share the partitions")
    fleet.publish(items(120, keys=40))
    until(lambda: any(run.pid == first.pid for run in fleet.journal().all()), "the first one works")
    before = {m.member for m in fleet.members() if m.pid == first.pid}
    fleet.stop(first)
    until(lambda: len(set(owners(fleet).values())) == 1 and None not in owners(fleet).values(), "the other has all")
    epochs = {p.partition: p.epoch for p in fleet.groups()["first"].partitions}
    fleet.go_on(first)
    until(lambda: "joins again" in fleet.errors() or "stops itself" in fleet.errors(), "the zombie has noticed")
    journal = check(fleet, 120)
    until(lambda: any(m.pid == first.pid for m in fleet.members()), "it is back")
    assert not before & {m.member for m in fleet.members()}, "no member comes back to life"
    stopped_at = fleet.ended[first.pid][-1]
    late = [run for run in journal.all() if run.pid == first.pid and run.started > stopped_at]
    assert all(run.epoch > epochs[run.partition] for run in late), "it starts nothing under an old epoch"


@ON_EACH
def test_a_worker_told_to_stop_drains_and_hands_over_at_once(fleet_of: MakeFleet) -> None:
    fleet = fleet_of(lease_seconds=20, handler_seconds=0.05)
    first, _ = fleet.start(2)
    until(lambda: shared_by(fleet, 2), "two members share the partitions")
    fleet.publish(items(600, keys=400))
    until(lambda: any(run.pid == first.pid for run in fleet.journal().all()), "the first one works")
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=10) == 0
    assert until(lambda: shared_by(fleet, 1), "the other has all", 10) < 2
    journal = check(fleet, 600)
    assert len(journal.all()) == 600, "what was drained is not repeated"


def test_a_second_signal_stops_at_once_and_hands_back(fleet_of: MakeFleet) -> None:
    fleet = fleet_of(lease_seconds=20, slow_key="key-0", slow_seconds=3600)
    fleet.publish([("key-0", 0)])
    (first,) = fleet.start(1)
    until(lambda: bool(fleet.journal().all()), "it runs")
    first.send_signal(signal.SIGTERM)
    until(lambda: any(m.pid == first.pid and m.stopping for m in fleet.members()), "it drains")
    first.send_signal(signal.SIGTERM)
    assert first.wait(timeout=10) == 1
    fleet.start(1, slow_seconds=0)
    assert until(lambda: fleet.handled(1), "the next one runs it", 10) < 5
    check(fleet, 1)


def test_a_handler_that_blocks_the_event_loop_for_three_leases_keeps_its_lease(fleet_of: MakeFleet) -> None:
    fleet = fleet_of(lease_seconds=1, partitions=1)
    fleet.publish([("key", number) for number in range(3)])
    fleet.start(1, block_seconds=3)
    until(lambda: bool(fleet.journal().all()), "it blocks")
    fleet.start(1)
    journal = check(fleet, 3)
    assert [(run.number, run.epoch) for run in journal.all()][:2] == [(0, 1), (1, 1)]
    assert len(journal.all()) == 3, "nothing is repeated"


def test_a_process_whose_loop_stands_still_ends_itself(fleet_of: MakeFleet) -> None:
    fleet = fleet_of(lease_seconds=1, block_seconds=3600, stall_seconds=2, partitions=1)
    fleet.publish([("key", 0)])
    (first,) = fleet.start(1)
    assert first.wait(timeout=20) == 70
    assert "BLOCK_SECONDS" in fleet.errors(), "the log shows where the main thread was"
    fleet.start(1, block_seconds=0)
    fleet.ended[first.pid].append(fleet.journal().all()[-1].started)
    check(fleet, 1)


@pytest.mark.parametrize("slow", ["first", "second"])
def test_two_groups_read_the_topic_independently(fleet_of: MakeFleet, slow: str) -> None:
    fleet = fleet_of(second_group=1, handler_seconds=0.02 if slow == "first" else 0)
    fleet.publish(items(300))
    one, _ = fleet.start(2)
    until(lambda: fleet.handled(100) and fleet.handled(100, "second"), "both move")
    fleet.kill(one)
    fleet.publish(items(100, start=300))
    until(lambda: fleet.handled(400, "second"), "the second has handled all")
    check(fleet, 400)
    assert fleet.journal().violations(fleet.published, groups=["second"], ended=fleet.ended) == []

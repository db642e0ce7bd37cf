"""Real workers whose file is locked by another process, on a full disk, fresh, old, or taken away."""

import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from streams.clock import boottime
from streams.errors import MigrationNeeded
from tests.system.fleet import Fleet, until
from tests.system.test_takeover import check, items, owners, shared_by

MakeFleet = Callable[..., Fleet]

MOST_BYTES = 192 << 10
"""So long a file may get while the disk is full: the write-ahead log wants to be longer, the journals do not."""


@contextmanager
def locked(fleet: Fleet) -> Iterator[float]:
    """Another process's write transaction, as long as the block takes; since when."""
    with closing(sqlite3.connect(fleet.folder / "fleet.db", timeout=10, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield boottime()
        connection.execute("ROLLBACK")


def full(fleet: Fleet, *, disk: bool) -> None:
    """Let no file of the workers grow any more, or all again. What they write then fails in the middle of a commit."""
    for process in fleet.processes:
        _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MOST_BYTES if disk else most, most))


def ended(fleet: Fleet) -> int:
    """How many handlers have ended."""
    return len(fleet.journal().handled())


def test_a_lock_held_for_longer_than_the_lease_stops_the_workers_and_loses_nothing(fleet_of: MakeFleet) -> None:
    fleet = fleet_of(lease_seconds=1, handler_seconds=0.05)
    fleet.publish(items(2_000))
    fleet.start(2)
    until(lambda: shared_by(fleet, 2), "two members share the partitions")
    until(lambda: ended(fleet) > 50, "they work")
    before = {member.member for member in fleet.members()}
    with locked(fleet):
        until(lambda: fleet.errors().count("stops itself") == 2, "both stop themselves")
        until(lambda: not fleet.members(), "both have expired")
    until(lambda: len(fleet.members()) == 2, "both have joined again")
    assert not before & {member.member for member in fleet.members()}
    check(fleet, 2_000)


def test_a_lock_held_for_less_than_the_lease_is_waited_for_and_costs_nobody_anything(fleet_of: MakeFleet) -> None:
    fleet = fleet_of(lease_seconds=6, handler_seconds=0.1)
    fleet.publish(items(1_000))
    fleet.start(2)
    until(lambda: shared_by(fleet, 2), "two members share the partitions")
    until(lambda: ended(fleet) > 20, "they work")
    before = owners(fleet)
    with locked(fleet) as since:
        done = ended(fleet)
        until(lambda: boottime() > since + 1.5, "the time of the lock")
        assert ended(fleet) > done, "handlers go on meanwhile"
    journal = check(fleet, 1_000)
    assert len(journal.all()) == 1_000, "nothing is repeated"
    assert owners(fleet) == before
    assert "stops itself" not in fleet.errors()


def test_on_a_full_disk_workers_wait_and_with_space_again_they_go_on(fleet_of: MakeFleet) -> None:
    fleet = fleet_of(lease_seconds=1, handler_seconds=0.05)
    fleet.publish(items(1_200))
    fleet.start(2)
    until(lambda: shared_by(fleet, 2), "two members share the partitions")
    until(lambda: ended(fleet) > 50, "they work")
    full(fleet, disk=True)
    until(lambda: "settlements cannot be committed" in fleet.errors(), "commits fail")
    until(lambda: fleet.errors().count("stops itself") >= 2, "hearts fail, for longer than the lease")
    full(fleet, disk=False)
    check(fleet, 1_200)
    assert "disk I/O error" in fleet.errors()


def test_workers_that_start_at_once_on_a_file_that_does_not_exist_share_it(fleet_of: MakeFleet) -> None:
    fleet = fleet_of(lease_seconds=2)

    def shared() -> bool:
        try:
            return shared_by(fleet, 4)
        except MigrationNeeded:  # There is no file yet, or an empty one.
            return False

    fleet.start(4)
    until(shared, "four members share the partitions")
    fleet.publish(items(200))
    journal = check(fleet, 200)
    assert len(journal.all()) == 200, "nothing is repeated"


@pytest.mark.parametrize("replaced", [False, True], ids=["removed", "replaced"])
def test_a_worker_whose_file_is_taken_away_says_so_and_goes_on_when_it_is_put_back(
    fleet_of: MakeFleet, replaced: bool
) -> None:
    fleet = fleet_of(lease_seconds=1, handler_seconds=0.05)
    file, aside = fleet.folder / "fleet.db", fleet.folder / "aside.db"
    fleet.publish(items(1_000))
    fleet.start()
    until(lambda: ended(fleet) > 50, "it works")
    file.rename(aside)
    if replaced:
        shutil.copy(aside, file)
    until(lambda: "was removed or replaced" in fleet.errors(), "it says so")
    until(lambda: "cannot join again" in fleet.errors(), "its trust has ended")
    assert file.exists() == replaced, "it makes no file where there was one"
    aside.rename(file)
    check(fleet, 1_000)

"""The checker of these tests finds what may not happen, and lets pass what may."""

from pathlib import Path

from tests.system.journal import Journal

S, E, C = "S", "E", "C"


def journal_of(folder: Path, *lines: tuple[str, float, int, int], pid_epochs: dict[int, int] | None = None) -> Journal:
    """A journal of one key from (what, at, pid, number)."""
    for what, at, pid, number in lines:
        epoch = (pid_epochs or {}).get(pid, 1)
        with (folder / f"{pid}.log").open("a") as file:
            file.write(f"{what} {at} {pid} {epoch} 0 first key {number}\n")
    return Journal.read(folder)


PUBLISHED = {"key": [10, 20, 30]}


def test_records_handled_one_after_another_in_order_are_fine(tmp_path: Path) -> None:
    journal = journal_of(
        tmp_path, (S, 1, 1, 10), (E, 2, 1, 10), (S, 2, 1, 20), (E, 3, 1, 20), (S, 4, 2, 30), (E, 5, 2, 30)
    )
    assert journal.violations(PUBLISHED) == []


def test_a_tail_repeated_in_order_after_a_crash_is_fine(tmp_path: Path) -> None:
    journal = journal_of(
        tmp_path,
        *((S, 1, 1, 10), (E, 2, 1, 10), (S, 3, 1, 20), (E, 4, 1, 20), (S, 5, 1, 30)),
        *((S, 7, 2, 20), (E, 8, 2, 20), (S, 9, 2, 30), (E, 10, 2, 30)),
    )
    assert journal.violations(PUBLISHED, ended={1: [6]}) == []


def test_a_record_that_no_handler_ended_is_lost(tmp_path: Path) -> None:
    journal = journal_of(
        tmp_path, (S, 1, 1, 10), (E, 2, 1, 10), (S, 3, 1, 20), (E, 4, 1, 20), (S, 5, 1, 30), (C, 6, 1, 30)
    )
    assert journal.violations(PUBLISHED) == ["first: key key lost [30]"]


def test_a_start_before_the_earlier_record_was_handled_is_a_disorder(tmp_path: Path) -> None:
    journal = journal_of(
        tmp_path, (S, 1, 1, 10), (E, 2, 1, 10), (S, 3, 1, 30), (E, 4, 1, 30), (S, 5, 1, 20), (E, 6, 1, 20)
    )
    (found,) = journal.violations(PUBLISHED)
    assert "30 started before" in found


def test_two_processes_with_one_key_at_once_are_found(tmp_path: Path) -> None:
    journal = journal_of(
        tmp_path,
        *((S, 1, 1, 10), (E, 4, 1, 10)),
        *((S, 2, 2, 10), (E, 3, 2, 10), (S, 5, 2, 20), (E, 6, 2, 20), (S, 7, 2, 30), (E, 8, 2, 30)),
    )
    (found,) = journal.violations(PUBLISHED)
    assert "two at once" in found


def test_a_handler_still_open_when_another_process_starts_the_key_is_found_unless_its_process_had_ended(
    tmp_path: Path,
) -> None:
    journal = journal_of(
        tmp_path,
        (S, 1, 1, 10),
        *((S, 3, 2, 10), (E, 4, 2, 10), (S, 5, 2, 20), (E, 6, 2, 20), (S, 7, 2, 30), (E, 8, 2, 30)),
    )
    assert len(journal.violations(PUBLISHED)) == 3
    assert journal.violations(PUBLISHED, ended={1: [2]}) == []

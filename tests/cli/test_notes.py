"""The demo's notes: what was written is read back, also after a kill."""

from itertools import count
from pathlib import Path

import pytest

from streams.cli.demo.notes import Run, Writer, read


def test_runs_are_read_as_they_were_written(tmp_path: Path) -> None:
    ticks = count(1)
    writer = Writer(tmp_path / "notes", clock=lambda: next(ticks) / 8)
    first = writer.begin("key-1", 7, 3, 2)
    second = writer.begin("key-2", 8, 3, 2)
    writer.end(second, done=False)
    writer.end(first, done=True)
    writer.begin("key-1", 9, 3, 2)
    assert list(read(tmp_path / "notes", "w1")) == [
        Run("w1", "key-1", 7, 3, 2, 0.125, 0.5, True),
        Run("w1", "key-2", 8, 3, 2, 0.25, 0.375, False),
        Run("w1", "key-1", 9, 3, 2, 0.625, None, False),
    ]


def test_a_line_is_written_when_its_call_returns(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "notes")
    run = writer.begin("key-1", 7, 3, 2)
    assert len(list(read(tmp_path / "notes", "w1"))) == 1
    writer.end(run, done=True)
    assert next(read(tmp_path / "notes", "w1")).done


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("begin 1 0.5 key-1 7 3 2\nbegin 2 0.75 key-2 8")
    assert [run.number for run in read(path, "w1")] == [7]


def test_a_worker_that_wrote_nothing_has_no_runs(tmp_path: Path) -> None:
    assert not list(read(tmp_path / "notes", "w1"))


@pytest.mark.parametrize("line", ["", "begin 1 0.5 key-1 7 3", "done 1", "over 1 0.5"])
def test_what_no_handler_writes_is_not_passed_over(tmp_path: Path, line: str) -> None:
    path = tmp_path / "notes"
    path.write_text(f"begin 1 0.5 key-1 7 3 2\n{line}\n")
    with pytest.raises(ValueError, match="a line that no handler writes"):
        list(read(path, "w1"))

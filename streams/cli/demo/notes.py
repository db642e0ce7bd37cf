"""What the handlers write down: when each run of a record began, and how it ended.

Every worker process appends to a file of its own, each line in one unbuffered write. What was written survives a
SIGKILL of its process; the line that it interrupts may be torn, and is then the file's last. Times are by the clock
that all processes of a machine share.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from streams.clock import boottime


class Run(NamedTuple):
    """One run of one record. `ended` is None when nobody wrote down its end; `done`: it ended by returning."""

    worker: str
    key: str
    number: int
    partition: int
    epoch: int
    started: float
    ended: float | None
    done: bool


class Writer:
    """Appends to one file of notes."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = boottime) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._clock = clock
        self._runs = 0

    def begin(self, key: str, number: int, partition: int, epoch: int) -> int:
        """A run begins; its id."""
        self._runs += 1
        self._write(f"begin {self._runs} {self._clock()!r} {key} {number} {partition} {epoch}")
        return self._runs

    def end(self, run: int, *, done: bool) -> None:
        """A run has ended: it returned, or was cancelled."""
        self._write(f"{'done' if done else 'cancelled'} {run} {self._clock()!r}")

    def _write(self, line: str) -> None:
        os.write(self._descriptor, f"{line}\n".encode())


def read(path: Path, worker: str) -> Iterator[Run]:
    """All runs of one worker; none when it has written nothing."""
    try:
        *lines, _ = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return
    runs: dict[str, Run] = {}
    for line in lines:
        match line.split(" "):
            case ["begin", run, time, key, number, partition, epoch]:
                runs[run] = Run(worker, key, int(number), int(partition), int(epoch), float(time), None, False)
            case ["done" | "cancelled" as word, run, time]:
                runs[run] = runs[run]._replace(ended=float(time), done=word == "done")
            case _:
                raise ValueError(f"{path.name} has a line that no handler writes: {line[:100]!r}")
    yield from runs.values()

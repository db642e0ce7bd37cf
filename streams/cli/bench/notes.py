"""When handlers started: each worker appends to a file of its own, each line in one unbuffered write."""

import os
import time
from pathlib import Path
from typing import NamedTuple

from streams.clock import boottime


class Start(NamedTuple):
    """One start of a handler: by the clock that all processes of a machine share, and by that of the log."""

    at: float
    wall: float
    partition: int
    epoch: int
    number: int


class Writer:
    """Appends to one file of notes."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, partition: int, epoch: int, number: int) -> None:
        """A handler starts now."""
        os.write(self._descriptor, f"{boottime()!r} {time.time()!r} {partition} {epoch} {number}\n".encode())


class Reader:
    """Reads one file of notes while it grows."""

    def __init__(self, path: Path) -> None:
        self.starts: list[Start] = []
        self._path = path
        self._read = 0

    def look(self) -> list[Start]:
        """Everything noted until now."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._read)
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]  # What a kill has torn, or is being written, is left.
            self._read += len(whole)
            for line in whole.decode().splitlines():
                at, wall, partition, epoch, number = line.split(" ")
                self.starts.append(Start(float(at), float(wall), int(partition), int(epoch), int(number)))
        return self.starts

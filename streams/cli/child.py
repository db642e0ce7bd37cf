"""A worker process beside a command: it ends with the command, however that ends."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import anyio

from streams.clock import boottime

LOOK_SECONDS = 0.005
LAST_WORDS = 2_000


class Child:
    """One `streams worker`, with what it says in a log file. `ended_at` is when it was first seen to be gone."""

    def __init__(self, target: str, *arguments: str, environment: Mapping[str, str], log: Path) -> None:
        self.ended_at: float | None = None
        self._log = log
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streams", "worker", target, *arguments],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,  # An interrupt of the terminal is for the command, which then ends its workers.
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code, once it has been seen to be gone."""
        return self._process.returncode

    def look(self) -> bool:
        """Whether it runs."""
        if self.ended_at is None and self._process.poll() is not None:
            self.ended_at = boottime()
        return self.ended_at is None

    async def kill(self) -> None:
        """SIGKILL; returns when it is dead."""
        self._process.kill()
        await self.wait()

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.terminate()

    async def wait(self) -> None:
        """Return when it has ended."""
        while self.look():  # noqa: ASYNC110 - a process that ends sets no event
            await anyio.sleep(LOOK_SECONDS)

    def end(self) -> None:
        """Whatever it does, it is gone when this returns."""
        self._process.kill()
        self._process.wait()
        self.look()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def last_words(self) -> str:
        """The end of what it logged."""
        return self._log.read_bytes()[-LAST_WORDS:].decode(errors="replace").strip()


def end_with_parent() -> None:
    """Called in the child: the command holds the other end of stdin, and when that is gone, this process drains."""
    threading.Thread(target=_end_with_parent, name="streams-parent", daemon=True).start()


def _end_with_parent() -> None:
    while os.read(0, 1):  # Not sys.stdin: its lock, held here, would break the end of the interpreter.
        pass
    os.kill(os.getpid(), signal.SIGTERM)

"""The demo's worker processes: started, killed, and in any case ended."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

from streams.cli.demo.errand import Errand
from streams.cli.demo.notes import Run, read
from streams.clock import boottime

END_SECONDS = 45.0
"""A worker that was told to stop ends itself well before."""
LOOK_SECONDS = 0.005
LAST_WORDS = 2_000


class Worker:
    """One process. `ended_at` is when it was first seen to be gone."""

    def __init__(self, name: str, url: str, errand: Errand, log: Path) -> None:
        self.name = name
        self.ended_at: float | None = None
        self.killed = False
        self._notes = errand.notes
        self._log = log
        command = "worker", "streams.cli.demo.handlers:app", "--url", url, "--log-level", "warning"
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "streams", *command],
                env=errand.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,  # An interrupt of the terminal is for the demo, which then ends its workers.
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def state(self) -> str:
        """Whether it runs, and why not."""
        if self.ended_at is None:
            return "running"
        return "killed" if self.killed else f"ended ({self._process.returncode})"

    def look(self) -> bool:
        """Whether it runs."""
        if self.ended_at is None and self._process.poll() is not None:
            self.ended_at = boottime()
        return self.ended_at is None

    async def kill(self) -> None:
        """SIGKILL; returns when it is dead."""
        self.killed = True
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

    def runs(self) -> list[Run]:
        """What its handlers wrote down."""
        return list(read(self._notes, self.name))

    def last_words(self) -> str:
        """The end of what it logged."""
        return self._log.read_bytes()[-LAST_WORDS:].decode(errors="replace").strip()


class Fleet:
    """All workers of a demo; leaving the block ends them."""

    def __init__(self, folder: Path, url: str, topic: str, partitions: int) -> None:
        self.workers: list[Worker] = []
        self._folder = folder
        self._url = url
        self._topic = topic
        self._partitions = partitions

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.end()

    def start(self, count: int) -> None:
        """Start so many workers."""
        for number in range(1, count + 1):
            name = f"worker-{number}"
            errand = Errand(self._topic, self._partitions, self._folder / f"{name}.notes")
            self.workers.append(Worker(name, self._url, errand, self._folder / f"{name}.log"))

    def running(self) -> list[Worker]:
        """Those that run."""
        return [worker for worker in self.workers if worker.look()]

    async def stop(self) -> None:
        """Let all drain, and end those that do not."""
        for worker in self.running():
            worker.terminate()
        with anyio.move_on_after(END_SECONDS):
            for worker in self.workers:
                await worker.wait()

    def runs(self) -> list[Run]:
        """What all handlers wrote down."""
        return [run for worker in self.workers for run in worker.runs()]

    def deaths(self) -> Mapping[str, float]:
        """When each worker that has ended was seen to be gone."""
        return {worker.name: worker.ended_at for worker in self.workers if worker.ended_at is not None}

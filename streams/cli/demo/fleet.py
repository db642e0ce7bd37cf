"""The demo's worker processes: started, killed, and in any case ended."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio

from streams.cli.child import Child
from streams.cli.demo.errand import Errand
from streams.cli.demo.notes import Run, read

END_SECONDS = 45.0
"""A worker that was told to stop ends itself well before."""


class Worker(Child):
    """One process."""

    def __init__(self, name: str, url: str, errand: Errand, log: Path) -> None:
        self.name = name
        self.killed = False
        self._notes = errand.notes
        environment = {**errand.environment(), "STREAMS_URL": url}  # Not a flag: every user sees those of a process.
        super().__init__("streams.cli.demo.handlers:app", "--log-level", "warning", environment=environment, log=log)

    @property
    def state(self) -> str:
        """Whether it runs, and why not."""
        if self.ended_at is None:
            return "running"
        return "killed" if self.killed else f"ended ({self.code})"

    async def kill(self) -> None:
        """SIGKILL; returns when it is dead."""
        self.killed = True
        await super().kill()

    def runs(self) -> list[Run]:
        """What its handlers wrote down."""
        return list(read(self._notes, self.name))


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

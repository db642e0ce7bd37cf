"""Worker processes of a test: started, killed, stopped and continued, and the records that are published to them."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import pytest

from streams import Streams
from streams.clock import boottime
from streams.stores import open_store
from streams.stores.rows import Cursor, GroupStatus, MemberRow, Record
from tests.system.journal import Journal

DEADLINE_SECONDS = 60.0

ON_EACH = pytest.mark.parametrize("kind", ["sqlite", "postgres"], indirect=True)
"""Run the test on each kind of database."""


class Fleet:
    """Workers on one database; what they write goes to a folder. All of them are gone when the block ends."""

    def __init__(
        self, folder: Path, *, url: str | None = None, lease_seconds: float = 1.0, **environment: object
    ) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'fleet.db'}" if url is None else url
        self.published: dict[str, list[int]] = defaultdict(list)
        self.ended: dict[int, list[float]] = defaultdict(list)
        self.processes: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **os.environ,
            "STREAMS_URL": self.url,
            "STREAMS_LEASE_SECONDS": str(lease_seconds),
            "TEST_FOLDER": str(folder),
            "STREAMS_STALL_SECONDS": str(environment.pop("stall_seconds", 300)),
            **_variables(environment),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    def start(self, count: int = 1, **environment: object) -> list[subprocess.Popen[bytes]]:
        """Start workers, as a user would."""
        started = []
        for _ in range(count):
            with (self.folder / "workers.err").open("ab") as errors:
                process = subprocess.Popen(
                    [sys.executable, "-m", "streams", "worker", "tests.system.app:app"],
                    env=self._environment | _variables(environment),
                    stdout=errors,
                    stderr=errors,
                )
            self.processes.append(process)
            started.append(process)
        return started

    def publish(self, records: Iterable[tuple[str, int]]) -> None:
        """Publish numbers under keys, in this order."""
        program = (
            "import sys, json, anyio\n"
            "from tests.system.app import app, numbers\n"
            "async def main():\n"
            "    async with app:\n"
            "        await numbers.publish_many(tuple(item) for item in json.load(sys.stdin))\n"
            "anyio.run(main)\n"
        )
        items = list(records)
        subprocess.run(
            [sys.executable, "-c", program],
            env=self._environment,
            input=json.dumps(items).encode(),
            check=True,
            timeout=DEADLINE_SECONDS,
        )
        for key, number in items:
            self.published[key].append(number)

    def kill(self, process: subprocess.Popen[bytes]) -> float:
        """SIGKILL; when."""
        process.kill()
        process.wait()
        self.ended[process.pid].append(boottime())
        return self.ended[process.pid][-1]

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """SIGSTOP; on SQLite not inside a write transaction: there it would hold the file's lock, and everybody."""
        while True:
            process.send_signal(signal.SIGSTOP)
            self.ended[process.pid].append(boottime())
            if not self.url.startswith("sqlite") or self._writable():
                return
            process.send_signal(signal.SIGCONT)

    def go_on(self, process: subprocess.Popen[bytes]) -> None:
        """SIGCONT."""
        process.send_signal(signal.SIGCONT)

    def _writable(self) -> bool:
        connection = sqlite3.connect(self.folder / "fleet.db", timeout=0.5, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        finally:
            connection.close()
        return True

    def journal(self) -> Journal:
        """What the handlers have written until now."""
        return Journal.read(self.folder)

    def errors(self) -> str:
        """What the workers logged."""
        return (self.folder / "workers.err").read_text()

    def handled(self, count: int, group: str = "first") -> bool:
        """Whether so many different records were handled."""
        return len(self.journal().handled(group)) >= count

    def groups(self) -> dict[str, GroupStatus]:
        """Groups of the topic `numbers` by name."""

        async def look() -> dict[str, GroupStatus]:
            async with Streams(self.url, migrate="never") as app:
                return {status.group: status for status in await app.admin.groups() if status.topic == "numbers"}

        return anyio.run(look)

    def doubled(self) -> dict[str, list[int]]:
        """What the handlers of the first group published along with settling, by key, in the order of the topic."""

        async def look() -> list[Record]:
            store = open_store(self.url)
            await store.open(migrate=False, create=False)
            try:
                topic = await store.topic("doubled")
                if topic is None:
                    return []
                cursors = [Cursor(topic.id, n, 0, (), 1_000_000, 1 << 30) for n in range(topic.partitions)]
                return [record for fetched in await store.fetch(cursors) for record in fetched.records]
            finally:
                await store.close()

        found: dict[str, list[int]] = defaultdict(list)
        for record in anyio.run(look):
            assert record.key is not None
            found[record.key].append(int(record.payload))
        return found

    def members(self) -> list[MemberRow]:
        """The members alive."""

        async def look() -> list[MemberRow]:
            async with Streams(self.url, migrate="never") as app:
                return await app.admin.members()

        return anyio.run(look)


def _variables(options: dict[str, object]) -> dict[str, str]:
    return {f"TEST_{name.upper()}": str(value) for name, value in options.items()}


def until(condition: Callable[[], bool], what: str, seconds: float = DEADLINE_SECONDS) -> float:
    """Wait until a condition holds; how long that took. It is asked every 20 ms, and given up with a sentence."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - started

"""The command line in processes of its own, as a user runs it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from streams.cli.program import run

ROOT = Path(__file__).parent.parent.parent
SECONDS = 30.0
"""The most that anything is waited for."""


def _interruptible() -> None:
    """A shell starts what runs in its background deaf to Ctrl-C, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Ended(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on stdout."""
        return json.loads(self.out)


class Started:
    """A command that runs. What it says to stderr goes to a file, so that it can be read meanwhile."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                preexec_fn=_interruptible,
            )

    @property
    def err(self) -> str:
        return self._log.read_text()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def says(self, words: str) -> None:
        """Return when it has said that."""
        until(lambda: words in self.err or self.process.poll() is not None)
        assert words in self.err, self.err

    def ended(self) -> Ended:
        """Return when it has ended."""
        out, _ = self.process.communicate(timeout=SECONDS)
        return Ended(self.process.returncode, out.decode(), self.err)

    def end(self) -> None:
        """Whatever it does."""
        self.process.kill()
        with self.process:
            pass


class Cli:
    """Runs `python -m streams` in a folder of its own, with nothing of ours in the environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
        self.environment |= {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        self._started: list[Started] = []

    def __call__(self, *arguments: str, stdin: bytes | IO[bytes] = b"", **environment: str) -> Ended:
        """Run a command to its end."""
        process = subprocess.Popen(
            self._command(arguments),
            cwd=self.folder,
            env=self.environment | environment,
            stdin=subprocess.PIPE if isinstance(stdin, bytes) else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            out, err = process.communicate(stdin if isinstance(stdin, bytes) else None, timeout=SECONDS)
        finally:
            process.kill()
        return Ended(process.returncode, out.decode(), err.decode())

    def start(self, *arguments: str, program: str | None = None, **environment: str) -> Started:
        """Start a command, or a program of the folder instead; it is ended with the test."""
        log = self.folder / f"stderr-{len(self._started)}.txt"
        command = self._command(arguments) if program is None else [sys.executable, program, *arguments]
        started = Started(command, self.folder, self.environment | environment, log)
        self._started.append(started)
        return started

    def write(self, name: str, text: str) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.write_text(text)
        return path

    def close(self) -> None:
        for started in self._started:
            started.end()

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "streams", *arguments]


class Here:
    """Runs commands in this process, which is faster; in the same folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        monkeypatch.chdir(folder)

    def __call__(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Ended:
        """Run a command to its end."""
        given = self._folder / "stdin"
        given.write_bytes(stdin)
        with self._monkeypatch.context() as patch, given.open() as file:
            patch.setattr("sys.stdin", file)
            for name, value in environment.items():
                patch.setenv(name, value)
            code = run(arguments)
        given.unlink()
        return Ended(code, *self._capsys.readouterr())


def until(condition: Callable[[], object], *, seconds: float = SECONDS) -> None:
    """Look until it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)

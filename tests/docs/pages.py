"""Pages of the documentation as something that runs: what their blocks mean, and where.

Each page has a folder of its own, and its blocks are run in their order:

- A `python` block whose first line is a comment with a file name is that file.
- Any other `python` block is run, and knows the names of those before it.
- A `console` block holds commands after `$ `, each with what it writes to stdout; `...` stands for anything, and
  white space for other white space. A command that ends in ` &` runs in the background, as job %1, %2 and so on,
  until it is killed or the page ends; then it is told to stop, and has to end with exit code 0. A command that only
  looks may be asked again until it answers as written: what it looks at takes its time.

All other blocks are not run: `sh` is for what has no end or sets up an environment.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path

from sybil import Document, Example
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

DEADLINE_SECONDS = 30.0
FILE = re.compile(r"# (\w+\.py)\n")
LOOKS = re.compile(r"streams (topics|groups|members|dead)\b")
KILL = re.compile(r"kill (?:-(\d+) )?%(\d+)")


class Page:
    """A page on its way through its blocks, in a folder."""

    def __init__(self, path: Path, folder: Path) -> None:
        self._folder = folder
        self._python = PythonEvaluator()
        self._jobs: list[subprocess.Popen[bytes]] = []
        self._killed: set[int] = set()
        parsers = CodeBlockParser("python", self._run_python), CodeBlockParser("console", self._run_console)
        self.blocks = list(Document.parse(str(path), *parsers))
        binaries = Path(sys.executable).parent
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
        self._environment = kept | {
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "STREAMS_LEASE_SECONDS": "2",  # A page that kills a worker need not wait for the default.
        }

    def run(self) -> None:
        """Run all blocks."""
        with self._background():
            for block in self.blocks:
                block.evaluate()

    @contextmanager
    def _background(self) -> Iterator[None]:
        try:
            yield
            for job in self._jobs:
                job.terminate()
            codes = [job.wait(DEADLINE_SECONDS) for job in self._jobs]
            assert [code for number, code in enumerate(codes, 1) if number not in self._killed and code] == []
        finally:
            for job in self._jobs:
                job.kill()
                job.wait()

    def _run_python(self, example: Example) -> None:
        if named := FILE.match(example.parsed):
            (self._folder / named[1]).write_text(example.parsed, encoding="utf-8")
        else:
            self._python(example)

    def _run_console(self, example: Example) -> str | None:
        for part in re.split(r"^\$ ", example.parsed, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            if failure := self._run_command(command.strip(), expected.strip()):
                return failure
        return None

    def _run_command(self, command: str, expected: str) -> str | None:
        if command.endswith(" &"):
            self._start(command.removesuffix(" &"))
            return None
        if kill := KILL.fullmatch(command):
            self._jobs[int(kill[2]) - 1].send_signal(int(kill[1] or signal.SIGTERM))
            self._killed.add(int(kill[2]))
            return None
        ends = time.monotonic() + (DEADLINE_SECONDS if LOOKS.match(command) else 0.0)
        while failure := self._differs(command, expected):
            if time.monotonic() > ends:
                return failure
            time.sleep(0.1)
        return None

    def _differs(self, command: str, expected: str) -> str | None:
        """What is wrong with a command's answer, if anything is."""
        ended = subprocess.run(
            ["bash", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
        )
        if ended.returncode != 0:
            return f"{command!r} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        if not OutputChecker().check_output(expected, ended.stdout, ELLIPSIS | NORMALIZE_WHITESPACE):
            return f"{command!r} answered:\n{ended.stdout}\nand not:\n{expected}"
        return None

    def _start(self, command: str) -> None:
        output = self._folder / f"job-{len(self._jobs) + 1}.log"
        with output.open("wb") as file:
            job = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self._jobs.append(job)

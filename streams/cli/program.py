"""The program: its commands, and what becomes of their errors."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper

from cyclopts import App, CycloptsError

from streams.cli import dead
from streams.cli.bench.command import bench
from streams.cli.demo.command import demo
from streams.cli.groups import list_groups
from streams.cli.keys import list_keys
from streams.cli.members import list_members
from streams.cli.publish import publish
from streams.cli.schema import migrate, sql
from streams.cli.terminal import fail
from streams.cli.topics import list_topics
from streams.cli.usage import UsageError
from streams.cli.where import where
from streams.cli.worker import worker
from streams.errors import StreamsError

FAILED, USAGE, INTERRUPTED, NOBODY_READS = 1, 2, 130, 141


def _version() -> str:
    try:
        return f"ordered-streams {version('ordered-streams')}"
    except PackageNotFoundError:  # run from its source
        return "ordered-streams (not installed)"


def program() -> App:
    """All commands. A noun alone lists."""
    app = App(
        name="streams",
        help="Ordered stream processing on the database you already run.",
        version=_version,
        help_format="markdown",
    )
    app.command(publish, usage="Usage: streams publish TOPIC KEY PAYLOAD\n       streams publish TOPIC -")
    for command in (worker, where, migrate, sql, demo, bench):
        app.command(command)
    nouns = {"topics": list_topics, "groups": list_groups, "members": list_members, "keys": list_keys}
    for noun, listing in nouns.items():
        sub = App(name=noun)
        sub.default(listing)
        sub.command(listing, name="list")
        app.command(sub)
    app.command(dead.commands())
    return app


def run(tokens: Sequence[str]) -> int:
    """Run one command; the exit code."""
    try:
        code = program()(tokens, print_error=False, exit_on_error=False, result_action="return_value")
        sys.stdout.flush()
        return int(code or 0)
    except (CycloptsError, UsageError) as error:
        fail(error)
        return USAGE
    except StreamsError as error:
        fail(error)
        return FAILED


def main() -> None:
    """Run the command line, and end the process with its exit code."""
    with suppress(OSError):  # The working directory may be gone.
        sys.path[0:0] = [os.getcwd()]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # What is still buffered would be written, and fail again, when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = NOBODY_READS
    sys.exit(code)

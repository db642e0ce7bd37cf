"""The app that the worker processes of these tests run: its handlers write down when they start and end.

A line is: what (S start, E end, C cancelled), seconds since boot, process, epoch, partition, group, key, number. Each
process has a file of its own, written without a buffer, so that a SIGKILL loses nothing.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from streams import Context, Streams
from streams.clock import boottime

PARTITIONS = int(os.environ.get("TEST_PARTITIONS", "8"))
HANDLER_SECONDS = float(os.environ.get("TEST_HANDLER_SECONDS", "0"))
BLOCK_SECONDS = float(os.environ.get("TEST_BLOCK_SECONDS", "0"))
SLOW_KEY = os.environ.get("TEST_SLOW_KEY", "")
SLOW_SECONDS = float(os.environ.get("TEST_SLOW_SECONDS", "0"))
FOLDER = Path(os.environ["TEST_FOLDER"])

app = Streams()
numbers = app.topic("numbers", int, partitions=PARTITIONS)
doubled = app.topic("doubled", int, partitions=PARTITIONS)

journal = os.open(FOLDER / f"{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def write(what: str, number: int, ctx: Context) -> None:
    """One line, at once."""
    line = f"{what} {boottime():.6f} {os.getpid()} {ctx.epoch} {ctx.partition} {ctx.group} {ctx.key} {number}\n"
    os.write(journal, line.encode())


@contextmanager
def written(number: int, ctx: Context) -> Iterator[None]:
    """Write down the start and how it was over: ended, or cancelled."""
    write("S", number, ctx)
    try:
        yield
    except BaseException:
        write("C", number, ctx)
        raise
    write("E", number, ctx)


@numbers.subscribe(group="first")
async def first(number: int, ctx: Context) -> None:
    """Handle, as slowly as the test asks."""
    with written(number, ctx):
        if BLOCK_SECONDS:
            time.sleep(BLOCK_SECONDS)  # noqa: ASYNC251 - the fault that is tested
        seconds = SLOW_SECONDS if ctx.key == SLOW_KEY else HANDLER_SECONDS
        if seconds:
            await anyio.sleep(seconds)
        ctx.publish(doubled, ctx.key, number * 2)


if os.environ.get("TEST_SECOND_GROUP"):

    @numbers.subscribe(group="second", concurrency=4)
    async def second(number: int, ctx: Context) -> None:
        """An independent reader, slower than the first."""
        with written(number, ctx):
            await anyio.sleep(0.002)

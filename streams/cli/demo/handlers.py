"""The app that the demo's workers run. Its handler does nothing but write down what it was given, and when."""

import os
import random
import signal
import sys
import threading

import anyio

from streams import Context, Streams
from streams.cli.demo.errand import from_environment
from streams.cli.demo.notes import Writer
from streams.cli.demo.plan import GROUP

WORK_SECONDS = 0.002
"""The most that a run takes. Runs of other keys go on meanwhile, and one of the same key would be seen to overlap."""


def _end_with_parent() -> None:
    """The demo holds the other end of stdin: however it ends, its workers do too."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


errand = from_environment()
threading.Thread(target=_end_with_parent, name="demo-parent", daemon=True).start()

app = Streams()
numbers = app.topic(errand.topic, int, partitions=errand.partitions)
notes = Writer(errand.notes)


@numbers.subscribe(group=GROUP)
async def write_down(number: int, ctx: Context) -> None:
    """One run."""
    run = notes.begin(str(ctx.key), number, ctx.partition, ctx.epoch)
    done = False
    try:
        await anyio.sleep(random.uniform(0, WORK_SECONDS))
        done = True
    finally:
        notes.end(run, done=done)

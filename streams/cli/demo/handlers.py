"""The app that the demo's workers run. Its handler does nothing but write down what it was given, and when."""

import random

import anyio

from streams import Context, Streams
from streams.cli.child import end_with_parent
from streams.cli.demo.errand import from_environment
from streams.cli.demo.notes import Writer
from streams.cli.demo.plan import GROUP

WORK_SECONDS = 0.002
"""The most that a run takes. Runs of other keys go on meanwhile, and one of the same key would be seen to overlap."""


errand = from_environment()
end_with_parent()

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

"""`streams demo`: its options, and what it says at the end."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from uuid import uuid4

import anyio
import msgspec
from cyclopts import Parameter

from streams.cli.demo.fleet import Fleet
from streams.cli.demo.plan import TOPIC, Plan
from streams.cli.demo.screen import screen
from streams.cli.demo.trial import Result, Trial
from streams.cli.interrupt import ending_on_signals
from streams.cli.options import LOGGING, Database, Json, Logging
from streams.cli.terminal import print_json, say
from streams.cli.usage import UsageError

PARTITIONS = 16
MOST_WORKERS = 64
FAULTS_SHOWN = 10


def demo(
    *,
    records: Annotated[int, Parameter(help="How many to publish.")] = 20_000,
    keys: Annotated[int, Parameter(help="Under how many keys.")] = 1_000,
    workers: Annotated[int, Parameter(help="How many worker processes.")] = 3,
    kill: Annotated[int, Parameter(help="How many of them to kill half way.")] = 1,
    url: Annotated[str | None, Parameter(metavar="URL", help="A database; else a fresh SQLite file.")] = None,
    as_json: Json = False,
    logging: Logging = LOGGING,
) -> int:
    """Kill a worker half way, and show that nothing is lost and every key stays in order.

    Starts worker processes, publishes the first half of the records, kills workers with SIGKILL, publishes the rest.
    The verdict is read off what the handlers themselves wrote down. Exit code 1 when anything was lost or reordered.
    """
    logging.set_up()
    _check(records, keys, workers, kill)
    with TemporaryDirectory(prefix="streams-demo-") as folder, ending_on_signals():
        result, trial = _run(Path(folder), Plan(records, keys), workers, kill, url)
    for fault in trial.faults[:FAULTS_SHOWN]:
        say(f"out of order: {fault}")
    if as_json:
        print_json(result)
    else:
        for name, value in msgspec.structs.asdict(result).items():
            print(f"{name.replace('_', ' '):20} {_shown(value):>12}")
    if result.good:
        say("Nothing was lost, and no key was reordered.")
        return 0
    say(f"{result.lost:,} records were lost, {result.out_of_order:,} runs were out of order.")
    return 1


def _check(records: int, keys: int, workers: int, kill: int) -> None:
    if records < 2:
        raise UsageError(f"--records {records}: there have to be 2 at least, one for each half")
    if keys < 1:
        raise UsageError(f"--keys {keys}: there has to be 1 at least")
    if not 1 <= workers <= MOST_WORKERS:
        raise UsageError(f"--workers {workers}: from 1 to {MOST_WORKERS} make sense on one machine")
    if not 0 <= kill < workers:
        raise UsageError(f"--kill {kill} of --workers {workers}: at least one worker has to be left")


def _run(folder: Path, plan: Plan, workers: int, kill: int, url: str | None) -> tuple[Result, Trial]:
    """In a database of the user's the topic gets a name of its own, and stays."""
    topic = TOPIC if url is None else f"{TOPIC}-{uuid4().hex[:8]}"
    database = Database(url=url or f"sqlite:///{folder}/demo.db")
    partitions = max(PARTITIONS, 2 * workers)
    app = database.app(migrate="auto")
    with Fleet(folder, app.settings.url, topic, partitions) as fleet, screen() as shown:
        trial = Trial(app, topic, plan, fleet, shown, partitions=partitions)
        result = anyio.run(_trial, trial, workers, kill)
    if url is not None:
        say(f"The topic {topic} and its group stay in the database.")
    return result, trial


async def _trial(trial: Trial, workers: int, kill: int) -> Result:
    return await trial.run(workers=workers, kill=kill)


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else "-"

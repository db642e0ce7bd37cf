"""A month of flights, folded per aircraft by three worker processes of which one is killed half way.

How much delay did aircraft carry from one departure into the next? For each departure that is what its aircraft
arrived late with the last time, as far as it also left late:

    carried += max(0, min(arrival delay of the aircraft's previous departure, this departure's delay))

So the sum is right only if the departures of each aircraft are folded in order, and each once. A killed worker's
last records are handled again by another one. The fold's state, a table of our own, survives the kill, and
remembers the offset of each aircraft's last departure, by which it recognises a record that comes again.
"""

import csv
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import msgspec

from streams import Context, Streams

DATA = Path(__file__).parent / "data" / "flights-2013-01.csv"
AIRCRAFT, DEPARTURES, MOST_DEPARTURES, CARRIED_MINUTES = 3_148, 26_849, 74, 78_207
WORKERS = 3

TABLE = """
CREATE TABLE IF NOT EXISTS aircraft (
    tail_number TEXT PRIMARY KEY,
    departures INTEGER NOT NULL,
    carried INTEGER NOT NULL,
    arrival_delay INTEGER NOT NULL,
    last_offset INTEGER NOT NULL,
    repeats INTEGER NOT NULL
) STRICT
"""

# All departures of an aircraft are in one partition, so the last offset says which of them are in. One statement is
# one transaction: state and offset cannot come apart.
FOLD = """
INSERT INTO aircraft VALUES (:tail_number, 1, 0, :arrival_delay, :offset, 0)
ON CONFLICT (tail_number) DO UPDATE SET
    departures = departures + 1,
    carried = carried + max(0, min(arrival_delay, :departure_delay)),
    arrival_delay = :arrival_delay,
    last_offset = :offset
WHERE last_offset < :offset
"""

SUMS = "SELECT count(*), sum(departures), max(departures), sum(carried), sum(repeats) FROM aircraft"


class Departure(msgspec.Struct):
    flight: str
    departure_delay: int
    arrival_delay: int


app = Streams(lease_seconds=2)  # a killed worker's partitions wait at most three seconds
departures = app.topic("departures", Departure)


@departures.subscribe(group="carried-delay")
async def fold(departure: Departure, ctx: Context) -> None:
    values = {
        "tail_number": ctx.key,
        "departure_delay": departure.departure_delay,
        "arrival_delay": departure.arrival_delay,
        "offset": ctx.offset,
    }
    if state().execute(FOLD, values).rowcount == 0:
        state().execute("UPDATE aircraft SET repeats = repeats + 1 WHERE tail_number = ?", (ctx.key,))


@cache
def state() -> sqlite3.Connection:
    """The fold's own database. What was committed to it survives a killed process; for a power cut, leave `full`."""
    connection = sqlite3.connect(os.environ["FLIGHTS_STATE"], timeout=30, isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("PRAGMA synchronous = normal")
    connection.execute(TABLE)
    return connection


def read() -> Iterator[tuple[str, Departure]]:
    """Key and payload of each departure, in the order of the file."""
    with DATA.open(newline="") as file:
        for row in csv.DictReader(file):
            delays = int(row["departure_delay_minutes"] or 0), int(row["arrival_delay_minutes"] or 0)
            yield row["tail_number"], Departure(row["flight"], *delays)


async def publish() -> None:
    async with app:
        await departures.publish_many(read())


async def work() -> None:
    await app.work(until_idle=True)


def fold_in_processes() -> None:
    """Start the workers, kill one when half is folded, and wait for the others to end."""
    workers = [subprocess.Popen([sys.executable, __file__, "worker"]) for _ in range(WORKERS)]
    try:
        while state().execute("SELECT total(departures) FROM aircraft").fetchone()[0] < DEPARTURES / 2:
            assert all(worker.poll() is None for worker in workers)
            time.sleep(0.01)
        workers[0].kill()
        assert [worker.wait() for worker in workers[1:]] == [0] * (WORKERS - 1)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def main() -> None:
    state()
    started = time.monotonic()
    anyio.run(publish)
    published = time.monotonic()
    fold_in_processes()
    folded = time.monotonic()
    *sums, repeats = state().execute(SUMS).fetchone()
    print(f"{sums[1]:,} departures of {sums[0]:,} aircraft, at most {sums[2]} of one; {sums[3]:,} minutes carried")
    print(f"published in {published - started:.1f} s; folded in {folded - published:.1f} s by {WORKERS} workers")
    print(f"one worker killed half way, {repeats} records handled again and recognised")
    if sums != [AIRCRAFT, DEPARTURES, MOST_DEPARTURES, CARRIED_MINUTES]:
        sys.exit(f"expected {AIRCRAFT:,}, {DEPARTURES:,}, {MOST_DEPARTURES} and {CARRIED_MINUTES:,}")


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        anyio.run(work)
    else:
        with TemporaryDirectory() as folder:
            os.environ.setdefault("STREAMS_URL", f"sqlite:///{folder}/flights.db")
            os.environ.setdefault("FLIGHTS_STATE", f"{folder}/state.db")
            main()

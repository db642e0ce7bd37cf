"""Each example, run as its reader runs it: as a process of its own, in a folder of its own."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_SECONDS = 90


class Ended(NamedTuple):
    """A process that has ended."""

    code: int
    said: str
    logged: str


def run(example: Path, folder: Path, *, url: str | None = None) -> Ended:
    """Run an example in a folder. Nothing of ours in the environment reaches it, and what it leaves in the temporary
    folder is found by the caller.
    """
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("STREAMS_", "FLIGHTS_"))}
    environment |= {"TMPDIR": str(temporary)} | ({"STREAMS_URL": url} if url else {})
    process = subprocess.Popen(
        [sys.executable, str(example)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said, logged = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.communicate()
    assert list(temporary.iterdir()) == []
    return Ended(process.returncode, said, logged)


def records(file: Path) -> int:
    """How many records are in a database."""
    connection = sqlite3.connect(file)
    try:
        (count,) = connection.execute("SELECT count(*) FROM streams_records").fetchone()
    finally:
        connection.close()
    return int(count)


def test_every_example_is_tested_here() -> None:
    tested = {"quickstart", "pipeline", "publish_in_a_transaction", "flights"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested


def test_the_quickstart_bills_the_orders_of_a_customer_in_order(tmp_path: Path) -> None:
    for _ in range(2):
        assert run(EXAMPLES / "quickstart.py", tmp_path) == (
            0,
            "customer-7: order 1, 19.99\ncustomer-7: order 2, 19.99\ncustomer-7: order 3, 19.99\n",
            "",
        )
    assert records(tmp_path / "streams.db") == 6


def test_the_pipeline_writes_an_invoice_for_each_order_in_order_and_once(tmp_path: Path) -> None:
    ended = run(EXAMPLES / "pipeline.py", tmp_path)
    assert ended.code == 0, ended.logged
    assert ended.said == "1000 orders, as many invoices: every customer's in order, and each once\n"
    assert ended.logged.count("attempt 1 of 12 failed") == 1
    assert ended.logged.endswith("ConnectionError: the tax office does not answer\n")


def test_a_row_and_a_record_are_committed_together_or_not_at_all(tmp_path: Path) -> None:
    assert run(EXAMPLES / "publish_in_a_transaction.py", tmp_path) == (
        0,
        "mallory: rolled back, row and record\ncommitted, and welcomed: ada, grace\n",
        "",
    )


@pytest.mark.parametrize(("name", "count"), [("quickstart", 3), ("pipeline", 2000), ("publish_in_a_transaction", 2)])
def test_an_example_uses_the_database_that_is_asked_for_also_a_second_time(
    tmp_path: Path, name: str, count: int
) -> None:
    file = tmp_path / "asked for.db"
    for runs in (1, 2):
        ended = run(EXAMPLES / f"{name}.py", tmp_path, url=f"sqlite:///{file}")
        assert ended.code == 0, ended.logged
        assert records(file) == count * runs


def test_the_flights_add_up_although_a_worker_is_killed(tmp_path: Path) -> None:
    ended = run(EXAMPLES / "flights.py", tmp_path)
    assert ended.code == 0, ended.logged
    sums, seconds, killed = ended.said.splitlines()
    assert sums == "26,849 departures of 3,148 aircraft, at most 74 of one; 78,207 minutes carried"
    assert re.fullmatch(r"published in \d+\.\d s; folded in \d+\.\d s by 3 workers", seconds)
    assert re.fullmatch(r"one worker killed half way, \d+ records handled again and recognised", killed)


def test_flights_that_do_not_add_up_are_an_error(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(EXAMPLES, tmp_path / "examples"))
    data = copy / "data" / "flights-2013-01.csv"
    data.write_text("".join(data.read_text().splitlines(keepends=True)[:-1]))
    ended = run(copy / "flights.py", tmp_path)
    assert ended.code == 1
    assert ended.said.startswith("26,848 departures")
    assert ended.logged == "expected 3,148, 26,849, 74 and 78,207\n"

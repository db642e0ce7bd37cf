"""`streams bench` with few records: what it prints, and what it leaves behind. Never how fast anything was."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import Cli, until

QUICK = "bench", "--scale", "0.0001", "--only"
FIGURES = {
    "publish": ["publish_many", "bare executemany", "part of the bare rate"],
    "handle": ["worker", "bare loop", "times slower than the bare loop"],
    "backlog": [
        "with 100 waiting",
        "with 200 waiting",
        "part of the rate with few",
        "peak memory of the worker",
    ],
    "latency": [
        "publish to handler start, p50",
        "publish to handler start, p99",
        "publish to handler start, longest",
        "bare insert of one row, p50",
        "bare insert of one row, p99",
    ],
    "idle": [
        "processor of an idle worker",
        "its heartbeats",
        "its write transactions",
        "transactions beyond the heart's",
    ],
    "takeover": [
        "kill to handler start, median",
        "kill to handler start, longest",
        "kills",
        "kills in time",
    ],
    "handover": [
        "release to handler start, median",
        "release to handler start, p95",
        "release to handler start, longest",
        "handovers",
        "partitions moved",
    ],
}
TARGETS = {"publish": 1, "handle": 1, "backlog": 2, "latency": 2, "idle": 2, "takeover": 2, "handover": 1}


@pytest.fixture
def temporary(cli: Cli) -> Iterator[Path]:
    """Where the benchmark makes its folders; at the end there is none."""
    temporary = cli.folder / "temporary"
    temporary.mkdir()
    cli.environment["TMPDIR"] = str(temporary)
    yield temporary
    assert not list(temporary.iterdir())


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("name", FIGURES)
def test_a_measurement_prints_its_figures_and_targets(cli: Cli, temporary: Path, name: str) -> None:
    ended = cli(*QUICK, name, "--json", STREAMS_LEASE_SECONDS="1", STREAMS_URL="memory://")
    assert ended.code == 0, ended.err
    assert ended.out.count("\n") == 1
    result = ended.json
    assert list(result) == ["machine", "scale", "measurements", "targets"]
    assert list(result["machine"]) == ["date", "system", "processor", "cores", "python", "database"]
    assert result["scale"] == 0.0001
    (figures,) = result["measurements"].values()
    assert [one["figure"] for one in figures] == FIGURES[name]
    assert all(one["value"] is None or one["value"] >= 0 for one in figures)
    assert len(result["targets"]) == TARGETS[name]
    for target in result["targets"]:
        assert list(target) == ["measurement", "figure", "value", "unit", "target", "goal", "met"]
        assert target["measurement"] == name
        assert target["met"] is None if target["value"] is None else isinstance(target["met"], bool)


def test_an_idle_worker_writes_nothing_but_its_heartbeats(cli: Cli, temporary: Path) -> None:
    ended = cli("bench", "--scale", "0.25", "--only", "idle", "--json")
    figures = {one["figure"]: one["value"] for one in ended.json["measurements"]["idle"]}
    assert figures["its heartbeats"] >= 1
    assert figures["transactions beyond the heart's"] == 0


def test_people_get_a_table_and_the_machine(cli: Cli, temporary: Path) -> None:
    ended = cli(*QUICK, "handle", "--only", "publish")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0].split() == ["MEASUREMENT", "FIGURE", "VALUE", "UNIT", "TARGET"]
    first_words = [line.split(" ")[0] for line in lines[1:]]
    assert [word for word in first_words if word in FIGURES] == ["publish", "handle"]
    assert "at least 0.5" in ended.out
    assert "at most 15 (goal 10)" in ended.out
    assert "CPython" in lines[-1]
    assert "SQLite" in lines[-1]
    assert "too little to go by" in lines[-1]
    assert "publish: round 1" in ended.err


def test_in_a_database_of_the_users_its_topics_stay_and_its_tables_do_not(cli: Cli, temporary: Path) -> None:
    ended = cli(*QUICK, "publish", "--url", "sqlite:///mine.db")
    assert ended.code == 0, ended.err
    assert "stay in the database" in ended.err
    (topic,) = cli("topics", "--json", "--url", "sqlite:///mine.db").json
    assert topic["topic"].startswith("bench-publish-orders-")
    assert topic["records"] == 201
    again = cli(*QUICK, "publish", "--url", "sqlite:///mine.db")
    assert again.code == 0, again.err
    assert b"streams_bare" not in (cli.folder / "mine.db").read_bytes()


@pytest.mark.parametrize("name", ["concurrent", "peers", "volume"])
def test_what_is_measured_on_a_server_only_is_wrong_usage_elsewhere(cli: Cli, temporary: Path, name: str) -> None:
    ended = cli("bench", "--only", name)
    assert (ended.code, ended.out) == (2, "")
    assert f"--only {name} is measured on PostgreSQL only" in ended.err


def test_a_database_inside_one_process_is_refused(cli: Cli, temporary: Path) -> None:
    ended = cli(*QUICK, "publish", "--url", "memory://")
    assert (ended.code, ended.out) == (1, "")
    assert "in-memory" in ended.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_no_process_and_no_file(cli: Cli, temporary: Path, number: signal.Signals) -> None:
    bench = cli.start("bench", "--only", "idle")
    bench.says("left alone")
    (folder,) = temporary.iterdir()
    (member,) = cli("members", "--json", "--url", f"sqlite:///{folder}/idle.db").json
    bench.send(number)
    ended = bench.ended()
    assert (ended.code, ended.out) == (130, "")
    assert "Traceback" not in ended.err
    until(lambda: not is_alive(member["pid"]), seconds=10.0)


def test_killed_it_leaves_no_process(cli: Cli) -> None:
    cli.environment["TMPDIR"] = str(cli.folder)
    bench = cli.start("bench", "--only", "idle")
    bench.says("left alone")
    (folder,) = cli.folder.glob("streams-bench-*")
    (member,) = cli("members", "--json", "--url", f"sqlite:///{folder}/idle.db").json
    bench.send(signal.SIGKILL)
    bench.ended()
    until(lambda: not is_alive(member["pid"]), seconds=10.0)


def test_a_worker_that_cannot_start_ends_it(cli: Cli, temporary: Path) -> None:
    cli.environment["PYTHONPATH"] = f"{cli.folder}:{cli.environment['PYTHONPATH']}"
    no_luck = "import os\nif 'STREAMS_BENCH_ERRAND' in os.environ:\n    os.write(2, b'no luck\\n'); os._exit(3)\n"
    cli.write("sitecustomize.py", no_luck)
    ended = cli(*QUICK, "idle", "--json")
    assert (ended.code, ended.out) == (1, "")
    assert "error: idle: a worker has ended with 3: no luck\n" in ended.err

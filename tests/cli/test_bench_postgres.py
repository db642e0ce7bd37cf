"""`streams bench` on PostgreSQL with few records: what it prints, and what it leaves behind."""

import pytest

from tests.cli.processes import Cli, Ended
from tests.servers.server import Server

FIGURES = {
    "publish": ["publish_many", "bare INSERT … SELECT unnest", "part of the bare rate"],
    "concurrent": ["256 tasks that await `publish`", "16 connections, one row a commit", "times the bare rate"],
    "rings": [
        "16 publishers, sleepers on another topic",
        "16 publishers, `?listen=off`",
        "part of the rate without sleepers",
    ],
    "handle": ["worker", "bare loop", "times slower than the bare loop"],
    "volume": [
        "log from publish to settled, first pass after a checkpoint",
        "log of the bare insert, first pass after a checkpoint",
        "times the bare log, first pass after a checkpoint",
        "log from publish to settled, second pass",
        "log of the bare insert, second pass",
        "times the bare log, second pass",
        "rows updated or deleted per 1,000 records",
    ],
    "snapshot": ["before", "a snapshot held for 1 s", "part of the rate before"],
    "backlog": ["with 100 waiting", "with 200 waiting", "part of the rate with few", "peak memory of the worker"],
    "latency": [
        "publish to handler start, p50",
        "publish to handler start, p99",
        "publish to handler start, longest",
        "bare insert of one row, p50",
        "bare insert of one row, p99",
    ],
    "idle": ["processor of an idle worker", "its statements", "statements a second"],
    "takeover": ["kill to handler start, median", "kill to handler start, longest", "kills", "kills in time"],
    "handover": [
        "release to handler start, median",
        "release to handler start, p95",
        "release to handler start, longest",
        "handovers",
        "partitions moved",
    ],
    "join": [
        "partitions moved by a join, most",
        "a moved partition stands still, longest",
        "another one shows no start, longest",
        "joins",
    ],
}
TARGETS = {
    "publish": ["at least 0.45"],
    "concurrent": ["at least 3"],
    "rings": ["at least 0.9"],
    "handle": ["at most 4"],
    "volume": ["at most 1.3", "at most 20"],
    "snapshot": ["at least 0.8"],
    "backlog": ["at least 0.8", "at most 250"],
    "latency": ["at most 5", "at most 50"],
    "idle": ["at most 2", "at most 3"],
    "takeover": ["at most 3", "at least 1"],
    "handover": ["at most 0.5"],
    "join": ["at most 8", "at most 1", "at most 0.25"],
}


def measured(cli: Cli, url: str, name: str) -> Ended:
    return cli("bench", "--scale", "0.0001", "--only", name, "--json", "--url", url)


def left_behind(server: Server, url: str) -> str:
    """Tables and schemas that only the benchmark makes."""
    tables = "SELECT relname FROM pg_class WHERE relname LIKE 'bare_%'"
    schemas = "SELECT nspname FROM pg_namespace WHERE nspname LIKE '%peer%'"
    return server.psql(f"{tables} UNION ALL {schemas}", url.rpartition("/")[2])


@pytest.mark.parametrize("name", FIGURES)
def test_a_measurement_prints_its_figures_and_targets(cli: Cli, server: Server, postgres: str, name: str) -> None:
    ended = measured(cli, postgres, name)
    assert ended.code == 0, ended.err
    assert ended.json["machine"]["database"] == f"PostgreSQL {server.version}"
    (figures,) = ended.json["measurements"].values()
    assert [one["figure"] for one in figures] == FIGURES[name]
    assert all(one["value"] is None or one["value"] >= 0 for one in figures)
    assert [target["target"].partition(" (")[0] for target in ended.json["targets"]] == TARGETS[name]
    assert left_behind(server, postgres) == ""


def test_an_idle_worker_is_seen_to_speak_with_the_server(cli: Cli, postgres: str) -> None:
    ended = cli("bench", "--scale", "0.25", "--only", "idle", "--json", "--url", postgres)
    figures = {one["figure"]: one["value"] for one in ended.json["measurements"]["idle"]}
    assert figures["its statements"] >= 1


# Peers, which are an extra


def test_peers_stand_beside_us_with_their_versions(cli: Cli, server: Server, postgres: str) -> None:
    pgqueuer, procrastinate = pytest.importorskip("pgqueuer"), pytest.importorskip("procrastinate")
    ended = measured(cli, postgres, "peers")
    assert ended.code == 0, ended.err
    figures = {one["figure"]: one["value"] for one in ended.json["measurements"]["peers"]}
    assert all(value > 0 for value in figures.values())
    for library in (pgqueuer, procrastinate):
        assert any(name.startswith(f"{library.__name__} {library.__version__}, ") for name in figures)
    assert [target["target"] for target in ended.json["targets"]] == ["at least 5", "at least 100"]
    assert left_behind(server, postgres) == ""


def test_a_peer_that_is_not_installed_is_named_and_left_out(cli: Cli, postgres: str) -> None:
    cli.environment["PYTHONPATH"] = f"{cli.folder}:{cli.environment['PYTHONPATH']}"
    absent = "import sys\nsys.modules['pgqueuer'] = sys.modules['procrastinate'] = None\n"
    cli.write("sitecustomize.py", absent)
    ended = measured(cli, postgres, "peers")
    assert ended.code == 0, ended.err
    for name in ("pgqueuer", "procrastinate"):
        assert f"{name}: not installed; pip install 'ordered-streams[peers]'" in ended.err
    ours, *theirs = ended.json["measurements"]["peers"]
    assert ours["value"] > 0
    assert [one["value"] for one in theirs] == [None] * 6
    assert [target["met"] for target in ended.json["targets"]] == [None, None]

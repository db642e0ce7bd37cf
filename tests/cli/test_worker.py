"""`streams worker`: finding the app, its flags, waiting for its database, and how it stops."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import Cli, Here, Started, until


def working(cli: Cli, *arguments: str, **environment: str) -> Started:
    """A worker that owns its partitions."""
    worker = cli.start("worker", "shop:app", *arguments, **environment)
    worker.says("acquired")
    return worker


def is_billing(cli: Cli, worker: Started, order: str) -> None:
    """Publish an order and return when its handler runs."""
    assert cli("publish", "orders", "customer-7", order).code == 0
    assert worker.process.stdout is not None
    while f"billed {json.loads(order)}" not in (line := worker.process.stdout.readline().decode()):
        assert line, worker.err


# Finding the app


@pytest.fixture
def shop_here(here: Here, shop: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[Here]:
    monkeypatch.syspath_prepend(shop.folder)
    yield here
    sys.modules.pop("shop", None)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("shop", "write MODULE:APP"),
        ("shop:", "write MODULE:APP"),
        ("shop.py:app", "as in shop:app"),
        ("nowhere:app", "there is no module 'nowhere'"),
        ("nowhere.deep:app", "there is no module 'nowhere'"),
        ("shop:application", "has no 'application'; its apps are shop:app"),
        ("shop:bill", "is no Streams app but of the type function; its apps are shop:app"),
        ("json:loads", "it has no Streams app"),
    ],
)
def test_a_target_that_names_no_app_is_wrong_usage(shop_here: Here, target: str, words: str) -> None:
    ended = shop_here("worker", target)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert words in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("source", "last"),
    [
        ("def f():\n    import bogus_dependency\nf()\n", "ModuleNotFoundError: No module named 'bogus_dependency'"),
        ("app = 1 +\n", "SyntaxError: invalid syntax"),
        ("from streams import Streams\napp = Streams(lease_seconds=0)\n", "SettingsError: lease_seconds=0"),
        ("raise SystemExit('no')\n", "SystemExit: no"),
    ],
)
def test_a_module_that_fails_shows_where(cli: Cli, source: str, last: str) -> None:
    cli.write("broken.py", source)
    ended = cli("worker", "broken:app")
    assert (ended.code, ended.out) == (2, "")
    *traceback, sentence = ended.err.splitlines()
    assert any("broken.py" in line for line in traceback)
    assert not any("importlib" in line or "target.py" in line for line in traceback)
    assert last in traceback[-1]
    assert sentence.startswith(f"error: the module broken cannot be imported: {last.partition(':')[0]}")


def test_an_app_may_be_an_attribute_in_a_package_of_the_working_directory(cli: Cli) -> None:
    (cli.folder / "pack").mkdir()
    cli.write("pack/__init__.py", "")
    cli.write("pack/shop.py", "from streams import Streams\nclass Config:\n    app = Streams()\n")
    ended = cli("worker", "pack.shop:Config.app")
    assert ended.code == 1
    assert "there is nothing to work on" in ended.err


# Flags


def test_a_flag_beats_the_apps_argument_and_the_environment(cli: Cli) -> None:
    cli.write(
        "shop.py",
        "from streams import Streams\n"
        "app = Streams('sqlite:///argument.db', lease_seconds=7, shutdown_seconds=3)\n"
        "@app.topic('t', dict).subscribe(group='g')\n"
        "async def f(t): ...\n",
    )
    worker = working(cli, "--url", "sqlite:///flag.db", "--shutdown-seconds", "4", STREAMS_URL="sqlite:///variable.db")
    assert (cli.folder / "flag.db").exists()
    assert not (cli.folder / "argument.db").exists()
    assert not (cli.folder / "variable.db").exists()
    assert "on sqlite:///flag.db" in worker.err
    worker.send(signal.SIGTERM)
    worker.says("for up to 4 s")
    assert worker.ended().code == 0


def test_a_worker_serves_what_it_was_asked_to(shop: Cli) -> None:
    worker = working(shop, "--group", "audit", "--topic", "orders")
    (member,) = shop("members", "--json").json
    assert member["groups"] == ["audit"]
    assert "group audit of topic orders (4 partitions)" in worker.err
    assert "billing" not in worker.err


@pytest.mark.parametrize("flags", ["--group bogus", "--topic bogus", "--group audit --group bogus"])
def test_a_subscription_that_nobody_has_is_wrong_usage(shop: Cli, flags: str) -> None:
    ended = shop("worker", "shop:app", *flags.split())
    assert ended.code == 2
    assert "bogus" in ended.err.splitlines()[-1]


def test_an_in_memory_database_is_refused(shop: Cli) -> None:
    ended = shop("worker", "shop:app", STREAMS_URL="memory://")
    assert ended.code == 1
    assert "lives inside one process" in ended.err


def test_without_migrating_a_worker_needs_a_schema(shop: Cli) -> None:
    ended = shop("worker", "shop:app", "--migrate", "never")
    assert ended.code == 1
    assert "streams migrate" in ended.err.splitlines()[-1]


def test_log_lines_may_be_json(shop: Cli) -> None:
    worker = working(shop, "--log-format", "json", STREAMS_LOG_LEVEL="info")
    worker.send(signal.SIGTERM)
    lines = [json.loads(line) for line in worker.ended().err.splitlines()]
    assert all(list(line) == ["time", "level", "logger", "message"] for line in lines)
    assert lines[0]["message"].startswith("worker of shop:app on sqlite:///streams.db: group billing of topic orders")


# Waiting


def test_a_worker_waits_for_its_database(shop: Cli) -> None:
    worker = shop.start("worker", "shop:app", "--url", "sqlite:///later/streams.db")
    worker.says("waits for its database")
    (shop.folder / "later").mkdir()
    worker.says("acquired")
    assert worker.err.count("waits for its database, trying again") == 1
    worker.send(signal.SIGTERM)
    assert worker.ended().code == 0


def test_a_worker_that_waits_for_its_database_can_be_stopped(shop: Cli) -> None:
    worker = shop.start("worker", "shop:app", "--url", "sqlite:///never/streams.db")
    worker.says("waits for its database")
    worker.send(signal.SIGINT)
    assert worker.ended().code == 0


# Stopping


def test_a_signal_drains(shop: Cli) -> None:
    worker = working(shop)
    is_billing(shop, worker, '{"seconds": 0.5}')
    worker.send(signal.SIGTERM)
    ended = worker.ended()
    assert ended.code == 0
    assert "done {'seconds': 0.5}" in ended.out
    groups = shop("groups", "--json").json
    assert [group["lag"] for group in groups] == [0, 0]
    assert {partition["owner"] for group in groups for partition in group["partitions"]} == {None}
    assert not shop("members", "--json").json


def test_a_drain_that_takes_too_long_is_exit_code_1(shop: Cli) -> None:
    worker = working(shop, "--shutdown-seconds", "0.3")
    is_billing(shop, worker, '{"seconds": 60}')
    worker.send(signal.SIGTERM)
    ended = worker.ended()
    assert ended.code == 1
    assert "done {'seconds'" not in ended.out
    assert [group["lag"] for group in shop("groups", "--json").json] == [0, 1]


def test_a_second_signal_stops_at_once(shop: Cli) -> None:
    worker = working(shop)
    is_billing(shop, worker, '{"seconds": 60}')
    worker.send(signal.SIGINT)
    worker.says("a second signal stops it at once")
    worker.send(signal.SIGTERM)
    ended = worker.ended()
    assert ended.code == 1
    assert "Traceback" not in ended.err
    assert not shop("members", "--json").json


STUBBORN = """
import time
import anyio
from streams import Streams

app = Streams()

@app.topic("orders", dict, partitions=1).subscribe(group="billing")
async def bill(order: dict) -> None:
    print("billed", order, flush=True)
    while order.get("block"):
        time.sleep(1)
    while True:
        try:
            await anyio.sleep(60)
        except BaseException:
            pass
"""


@pytest.mark.parametrize("order", ["{}", '{"block": true}'])
def test_a_worker_that_does_not_stop_is_stopped(cli: Cli, order: str) -> None:
    cli.write("shop.py", STUBBORN)
    cli.write(
        "impatient.py",
        "from streams.cli import main, watchdog\nwatchdog.SECOND_SECONDS = 0.5\nmain()\n",
    )
    worker = cli.start("worker", "shop:app", program="impatient.py")
    worker.says("acquired")
    is_billing(cli, worker, order)
    worker.send(signal.SIGTERM)
    worker.send(signal.SIGINT)
    ended = worker.ended()
    assert ended.code == 1
    assert "was told to stop and did not" in ended.err


def test_records_of_a_killed_worker_are_handled_by_the_next(shop: Cli) -> None:
    first = working(shop, STREAMS_LEASE_SECONDS="1")
    is_billing(shop, first, '{"seconds": 60}')
    first.send(signal.SIGKILL)
    second = shop.start("worker", "shop:app", STREAMS_LEASE_SECONDS="1")
    assert second.process.stdout is not None
    lines = iter(second.process.stdout.readline, b"")
    until(lambda: b"billed" in next(lines))


def test_the_working_directory_comes_first(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "shop.py").write_text("raise RuntimeError('the wrong shop')\n")
    cli.write("shop.py", "app = 'the right shop'\n")
    path = f"{tmp_path / 'elsewhere'}:{cli.environment['PYTHONPATH']}"
    assert "of the type str" in cli("worker", "shop:app", PYTHONPATH=path).err

"""What all commands have in common: help, exit codes, pipes and interrupts."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from streams.cli.program import run
from tests.cli.processes import Cli

COMMANDS = {
    "worker": (
        "--topic",
        "--group",
        "--url",
        "--schema",
        "--migrate",
        "--lease-seconds",
        "--log-level",
        "--log-format",
    ),
    "publish": ("--header", "--url", "--json"),
    "topics": ("list", "--url", "--json"),
    "topics list": ("--url", "--json"),
    "groups": ("list", "--partitions", "--url", "--json"),
    "groups list": ("--partitions", "--url", "--json"),
    "members": ("list", "--url", "--json"),
    "members list": ("--url", "--json"),
    "dead": ("list", "--url", "--json"),
    "dead list": ("--url", "--json"),
    "migrate": ("--url", "--schema"),
    "sql": ("--url", "--schema", "--json"),
    "demo": ("--records", "--keys", "--workers", "--kill", "--url", "--json"),
    "bench": ("--only", "--scale", "--url", "--json"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Usage: streams")
    assert not [option for option in COMMANDS[command] if option not in out]


def test_the_program_lists_all_its_commands(cli: Cli) -> None:
    ended = cli("--help")
    assert ended.code == 0
    assert not [command for command in COMMANDS if " " not in command and command not in ended.out]


def test_the_version_is_data(cli: Cli) -> None:
    ended = cli("--version")
    assert ended.code == 0
    assert ended.out.startswith("ordered-streams ")


@pytest.mark.parametrize(
    "arguments",
    [
        "bogus",
        "worker",
        "publish orders",
        "publish orders key",
        "topics bogus",
        "topics --bogus",
        "worker shop:app --lease-seconds soon",
        "worker shop:app --migrate sometimes",
        "publish orders key 1 --header novalue",
        "publish orders key 1 --header a=1 --header a=2",
        "demo --records many",
        "demo --records 1",
        "demo --keys 0",
        "demo --workers 0",
        "demo --kill 3",
        "demo --kill -1",
        "bench --only everything",
        "bench --scale 0",
        "bench --scale nan",
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments.split()) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_an_error_is_one_line_and_exit_code_1(cli: Cli) -> None:
    ended = cli("topics", "--url", "nonsense")
    assert ended == (1, "", ended.err)
    assert ended.err.startswith("error: 'nonsense' is not a database")
    assert ended.err.count("\n") == 1


def test_a_setting_that_cannot_be_is_an_error(cli: Cli) -> None:
    ended = cli("topics", STREAMS_LEASE_SECONDS="soon")
    assert (ended.code, ended.out) == (1, "")
    assert "lease_seconds" in ended.err


@pytest.mark.parametrize("url", ["memory://", "sqlite:///:memory:", "sqlite:///x.db?mode=memory"])
@pytest.mark.parametrize("command", ["topics", "groups", "members", "dead", "migrate", "publish t k 1", "demo"])
def test_an_in_memory_database_is_refused(command: str, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--url", url]) == 1
    assert "lives inside one process" in capsys.readouterr().err


def test_whoever_stops_reading_is_not_told_of_it(cli: Cli, database: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [*cli._command(("groups", "--json"))]
    done = subprocess.run(command, cwd=cli.folder, env=cli.environment, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_interrupt_is_quiet(cli: Cli, database: Path) -> None:
    publishing = cli.start("publish", "orders", "-", "--log-level", "debug")
    publishing.says("selector")  # asyncio's word for having begun
    publishing.send(signal.SIGINT)
    ended = publishing.ended()
    assert ended.code == 130
    assert "Traceback" not in ended.err
    assert "error" not in ended.err

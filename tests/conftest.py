"""PostgreSQL for whoever asks for it, and how many tests a missing system package leaves out.

A server starts with the first test that asks for it, and serves the whole run.
"""

import os
from collections.abc import Generator, Iterator

import pytest

from tests.needs import left_out, needs
from tests.servers.binaries import servers
from tests.servers.server import Server

CORNER = "STREAMS_TEST_POSTGRES"

SETTINGS = {
    "max_connections": 200,
    "max_prepared_transactions": 10,
    # What is committed survives the server all the same, since the kernel has it; only not the machine. A database is
    # then dropped in a twentieth of the time.
    "fsync": False,
}


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The newest PostgreSQL, or the oldest if the environment says so. Who stops or kills it starts it again."""
    chosen = servers().oldest if os.environ.get(CORNER) == "oldest" else servers().newest
    if chosen is None:
        needs("postgresql")
    assert chosen is not None
    with Server(chosen, SETTINGS) as server:
        yield server


@pytest.fixture(scope="session")
def oldest_server() -> Iterator[Server]:
    """The oldest PostgreSQL that the system has. Who stops or kills it starts it again."""
    needs("postgresql")
    oldest = servers().oldest
    assert oldest is not None
    with Server(oldest, SETTINGS) as server:
        yield server


@pytest.fixture
def database(server: Server) -> Iterator[str]:
    """The URL of an empty database, dropped after the test."""
    if not server.running:  # A test failed before it could start it again: let the next ones be.
        server.start()
    url = server.create_database()
    yield url
    if server.running:
        server.resume()
        server.drop_database(url)


@pytest.fixture(scope="session")
def shared_database(server: Server) -> str:
    """The URL of a database for all tests that make a schema of their own in it, which takes a third of the time."""
    if not server.running:
        server.start()
    return server.create_database()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Handlers of the tests log whatever there is; what is no UTF-8 cannot be told to the process that reports."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for package, count in left_out(terminalreporter.getreports("skipped")).items():
        terminalreporter.write_line(f"{count} left out: they need the system package {package}", yellow=True)

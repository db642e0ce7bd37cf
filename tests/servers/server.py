"""A PostgreSQL server of a test's own, in a temporary folder: started, stopped, killed, paused, and gone at the end.

It takes TCP on the loopback and a Unix socket in its folder, keeps what it commits (`fsync` and `synchronous_commit`
are on), and knows one user, who may do everything. All of it blocks; a first start takes a second or two.
"""

import itertools
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import psutil

from tests.servers import leftovers
from tests.servers.account import Account, unprivileged
from tests.servers.binaries import Binaries

USER = "streams"
HOST = "127.0.0.1"
PORTS = range(15_000, 32_000)
"""Below those that Linux hands to outgoing connections: between a kill and a start nobody gets ours by accident."""

START_SECONDS = 60.0
STOP_SECONDS = 30.0
STATEMENT_SECONDS = 60.0
POLL_SECONDS = 0.005
SOCKET_PATH_BYTES = 100
"""A little less than a Unix socket's path may have."""

Setting = str | int | float | bool
STOPS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class ServerError(Exception):
    """A server did not do what it was told; with the tail of its log."""


class Server:
    """One server. `settings` are lines of its postgresql.conf; what is changed in them counts at the next start."""

    def __init__(self, binaries: Binaries, settings: Mapping[str, Setting] | None = None) -> None:
        self.version = binaries.version
        self.settings = dict(settings or {})
        self.port = 0
        """Chosen by the first start, and kept."""
        self._binaries = binaries
        self._account = unprivileged()
        self._password = secrets.token_hex(8)
        self._folder: Path | None = None
        self._warden: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = itertools.count(1)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def bin(self) -> Path:
        """Where its programs are: pg_dump, pgbench and the others."""
        return self._binaries.bin

    @property
    def folder(self) -> Path:
        """Holds all of it: data, Unix socket, log."""
        assert self._folder is not None, "not started yet, or closed"
        return self._folder

    @property
    def running(self) -> bool:
        """Whether its postmaster lives; it may be paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def postmaster(self) -> psutil.Process:
        assert self._process is not None, "not running"
        return psutil.Process(self._process.pid)

    def processes(self) -> list[psutil.Process]:
        """The postmaster, and all that it has started and that still live: the backends among them."""
        return leftovers.living([self.postmaster, *self.postmaster.children(recursive=True)])

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        assert not self.running, "already running"
        if self._folder is None:
            self._initialise()
        for port in [self.port] if self.port else _free_ports(5):
            self._configure(port)
            with (self.folder / "log").open("ab") as log:
                mark = log.tell()
                self._process = self._postgres(log.fileno())
            if self._is_up():
                self.port = port
                return
            if "could not bind" not in self.log()[mark:]:
                break
        self._process = None
        raise ServerError(f"PostgreSQL {self.version} did not start\n{self._tail()}")

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Smart waits for its clients to leave, fast ends their transactions, immediate leaves all to recovery."""
        assert self._process is not None, "not running"
        self.resume()
        self._process.send_signal(STOPS[mode])
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise ServerError(f"PostgreSQL did not stop ({mode})\n{self._tail()}") from None
        self._process = None

    def kill(self) -> None:
        """A crash: SIGKILL for the postmaster and for all that it has started. They are gone when this returns."""
        assert self._process is not None, "not running"
        leftovers.kill(self.postmaster)
        self._process.wait()
        self._process = None

    def restart(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        self.stop(mode)
        self.start()

    def pause(self) -> None:
        """SIGSTOP for all of them. Connections stay open, and nobody answers."""
        leftovers.pause(self.postmaster)

    def resume(self) -> None:
        """SIGCONT for all of them; the postmaster last."""
        for process in reversed(self.processes()):
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def url(self, database: str = "postgres", *, over: Literal["tcp", "socket"] = "tcp") -> str:
        if over == "socket":
            return f"postgresql://{USER}:{self._password}@/{database}?host={self.folder}&port={self.port}"
        return f"postgresql://{USER}:{self._password}@{HOST}:{self.port}/{database}"

    def create_database(self) -> str:
        """The URL of a new, empty database."""
        name = f"streams_{next(self._databases)}"
        self.psql(f"CREATE DATABASE {name} TEMPLATE template0")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """With whoever is still connected to it."""
        name = url.rpartition("/")[2]
        self.psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def psql(self, sql: str, database: str = "postgres") -> str:
        """Run statements, each by itself. The rows that they return: one a line, `|` between columns."""
        command: list[str | Path] = [self.bin / "psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]
        command += [
            "--set",
            "ON_ERROR_STOP=1",
            "--dbname",
            f"host={HOST} port={self.port} user={USER} dbname={database}",
        ]
        environment = _environment() | {"PGPASSWORD": self._password}
        ended = subprocess.run(
            command, input=sql, env=environment, capture_output=True, text=True, check=False, timeout=STATEMENT_SECONDS
        )
        if ended.returncode:
            raise ServerError(f"psql: {ended.stderr.strip()}")
        return ended.stdout.removesuffix("\n")

    def log(self) -> str:
        """What it has logged since the first start."""
        return (self.folder / "log").read_text(errors="replace")

    def close(self) -> None:
        """End it, in whatever state it is, and remove all of it."""
        if self._folder is not None:
            if self.running:
                self.kill()
            leftovers.sweep(self._folder)
            self._folder = None
        if self._warden is not None:
            self._warden.communicate()
            self._warden = None

    def _initialise(self) -> None:
        self._folder = _folder(self._account)
        program = [sys.executable, leftovers.__file__, str(self._folder)]
        self._warden = subprocess.Popen(program, stdin=subprocess.PIPE, start_new_session=True)
        if not self._account.runs(self.bin / "postgres", "--version"):
            self._binaries = self._binaries.copied_to(self._folder)
        secret = self._folder / "password"
        secret.write_text(self._password)
        self._account.own(secret)
        command: list[str | Path] = [self.bin / "initdb", "--pgdata", self._folder / leftovers.DATA]
        command += ["--username", USER, "--pwfile", secret, "--auth", "password"]
        command += ["--encoding", "UTF8", "--locale", "C", "--no-sync"]
        with (self._folder / "log").open("ab") as log:
            ended = subprocess.run(
                command,
                cwd=self._folder,
                env=_environment(),
                stdout=log,
                stderr=log,
                check=False,
                **self._account.identity,
            )
        if ended.returncode:
            raise ServerError(f"initdb of PostgreSQL {self.version} failed\n{self._tail()}")
        with (self._folder / leftovers.DATA / "postgresql.conf").open("a") as conf:
            conf.write("include 'server.conf'\n")

    def _configure(self, port: int) -> None:
        settings: dict[str, Setting] = {
            "listen_addresses": HOST,
            "port": port,
            "unix_socket_directories": str(self.folder),
            "fsync": True,
            "synchronous_commit": True,
            # In the folder, and so removed with it. Elsewhere a crash would leave segments behind.
            "dynamic_shared_memory_type": "mmap",
        }
        conf = self.folder / leftovers.DATA / "server.conf"
        conf.write_text("".join(f"{name} = {_quoted(value)}\n" for name, value in (settings | self.settings).items()))
        self._account.own(conf)

    def _postgres(self, log: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self.bin / "postgres", "-D", self.folder / leftovers.DATA],
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # Ctrl-C in a terminal is for the tests, and not for the server too.
            start_new_session=True,
            **self._account.identity,
        )

    def _is_up(self) -> bool:
        """Wait for it; False when it has ended instead."""
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while not leftovers.is_ready(self.folder, self._process.pid):
            if self._process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                self.kill()
                return False
            time.sleep(POLL_SECONDS)
        return True

    def _tail(self) -> str:
        return "\n".join(self.log().splitlines()[-20:])


def _folder(account: Account) -> Path:
    """A folder that the account may enter, with a path that is short enough for a socket in it."""
    tried = []
    for parent in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):
        folder = Path(tempfile.mkdtemp(prefix="pg-", dir=parent)).resolve()
        account.own(folder)
        if account.enters(folder) and len(os.fsencode(folder / ".s.PGSQL.65535")) <= SOCKET_PATH_BYTES:
            return folder
        folder.rmdir()
        tried.append(parent)
    raise ServerError(f"none of these can hold a server's folder: {tried}")


def _free_ports(count: int) -> Iterator[int]:
    """Another process may take one before we do; so there are several."""
    for port in random.sample(PORTS, 1000):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            count -= 1
            yield port
        if not count:
            return


def _environment() -> dict[str, str]:
    """Ours, without what would tell PostgreSQL's programs of another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _quoted(value: Setting) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "'" + str(value).replace("'", "''") + "'"

"""`sqlite:///…` URLs: where the file is, and how to open it."""

import sqlite3
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from uuid import uuid4

from streams.errors import SettingsError

_OURS = ("synchronous", "busy_seconds", "listen")
_DRIVERS = ("mode", "vfs")
_MODES = ("ro", "rw", "rwc", "memory")


class SqliteUrl(NamedTuple):
    """A parsed URL. `memory` is set for an in-memory file, which lives as long as this process keeps it open."""

    path: str
    synchronous: Literal["full", "normal"]
    busy_seconds: float
    listen: bool
    memory: bool
    query: str

    @property
    def uri(self) -> str:
        """For `sqlite3.connect(uri=True)`. An in-memory file is shared by the connections of this process."""
        if self.memory:
            return f"file:/{self.path}?vfs=memdb"
        return f"file:{quote(self.path)}{self.query}"


def parse(url: str) -> SqliteUrl:
    """Parse a URL.

    Raises:
        SettingsError: not a file, or a parameter that nobody knows or that has a value it cannot have.
    """
    parts = urlsplit(url)
    path = unquote(parts.path.removeprefix("/"))
    if not url.lower().startswith("sqlite:///") or not path or "\0" in path or parts.fragment:
        raise SettingsError(
            f"{url!r} names no SQLite file: write sqlite:///relative.db, or sqlite:////absolute.db with four slashes"
        )
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(given.keys() - {*_OURS, *_DRIVERS}):
        known = ", ".join(sorted((*_OURS, *_DRIVERS)))
        raise SettingsError(f"{url!r} has the unknown parameter {unknown[0]!r}; known are {known}")
    if "mode" in given:
        _choice(url, given, "mode", dict.fromkeys(_MODES), "")
    drivers = "&".join(f"{name}={quote(given[name])}" for name in _DRIVERS if name in given)
    memory = path == ":memory:" or given.get("mode") == "memory"
    return SqliteUrl(
        path=f"streams-{uuid4().hex}" if memory else str(Path(path).expanduser()),
        synchronous=_choice(url, given, "synchronous", {"full": "full", "normal": "normal"}, "full"),
        busy_seconds=_seconds(url, given.get("busy_seconds", "30")),
        listen=_choice(url, given, "listen", {"on": True, "off": False}, "on"),
        memory=memory,
        query=f"?{drivers}" if drivers else "",
    )


def connect(url: SqliteUrl, *, create: bool) -> sqlite3.Connection:
    """A connection that leaves transactions to us, usable from one thread at a time."""
    uri = url.uri
    if not create and not url.memory and "mode=" not in uri:
        uri += f"{'&' if '?' in uri else '?'}mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)


def _choice(url: str, given: dict[str, str], name: str, choices: dict[str, Any], default: str) -> Any:
    value = given.get(name, default)
    if value not in choices:
        raise SettingsError(f"{url!r}: {name}={value!r} is not one of {', '.join(choices)}")
    return choices[value]


def _seconds(url: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise SettingsError(f"{url!r}: busy_seconds={text!r} is not a number of seconds from 0 to 86400")
    return seconds

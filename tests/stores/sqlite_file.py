"""Stores on a SQLite file."""

from pathlib import Path

from streams.stores.sqlite.store import SqliteStore
from streams.stores.sqlite.url import parse
from tests.conformance.clock import Clock


def store_on(path: Path, query: str = "", *, clock: Clock, schema: str = "streams") -> SqliteStore:
    return SqliteStore(parse(f"sqlite:///{path}{query}"), schema=schema, clock=clock)

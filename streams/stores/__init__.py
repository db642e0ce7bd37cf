"""Stores: the protocol, and the databases behind it."""

import re
from urllib.parse import urlsplit

from streams.errors import SettingsError
from streams.stores.protocol import Store

__all__ = ["Store", "in_memory", "open_store"]


def open_store(url: str, *, schema: str = "streams") -> Store:
    """The store that a URL names, not yet opened.

    Raises:
        SettingsError: a URL or schema that cannot be.
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,47}", schema):
        raise SettingsError(f"schema={schema!r} is not a plain lower-case identifier of at most 48 characters")
    if schema.startswith(("sqlite_", "pg_")) or schema == "sqlite":
        raise SettingsError(f"schema={schema!r} belongs to the database itself; use another name")
    scheme = _scheme(url)
    if scheme == "memory":
        from streams.stores.memory import MemoryStore

        if url != "memory://":
            raise SettingsError(f"{url!r}: write memory:// and nothing behind it")
        return MemoryStore()
    if scheme == "sqlite":
        from streams.stores.sqlite.store import SqliteStore
        from streams.stores.sqlite.url import parse

        return SqliteStore(parse(url), schema=schema)
    if scheme in ("postgresql", "postgres"):
        from streams.stores.postgres.store import PostgresStore
        from streams.stores.postgres.url import parse as parse_postgres

        return PostgresStore(parse_postgres(url), schema=schema)
    raise SettingsError(
        f"{scheme or url!r} is not a database that streams knows: write sqlite:///file.db, memory:// or postgresql://…"
    )


def in_memory(url: str) -> bool:
    """Whether a URL names a database that lives inside one process, and ends with it.

    Raises:
        SettingsError: a URL that cannot be.
    """
    scheme = _scheme(url)
    if scheme == "sqlite":
        from streams.stores.sqlite.url import parse

        return parse(url).memory
    return scheme == "memory"


def _scheme(url: str) -> str:
    try:
        return urlsplit(url).scheme
    except ValueError as error:
        shown = f"{url!r}" if url.startswith("sqlite:") else f"{url.partition(':')[0]}:…"  # There may be a password.
        raise SettingsError(f"url={shown} is no URL: {error}; write sqlite:///file.db or memory://") from error

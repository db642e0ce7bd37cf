"""A URL says which store serves it; one that says nothing is an error that says what to write."""

from pathlib import Path

import pytest

from streams import SettingsError, Streams
from streams.stores import in_memory, open_store
from streams.stores.memory import MemoryStore
from streams.stores.sqlite.store import SqliteStore


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("memory://", MemoryStore),
        ("sqlite:///streams.db", SqliteStore),
        ("sqlite:////var/lib/streams.db", SqliteStore),
        ("sqlite:///:memory:", SqliteStore),
        ("sqlite:///a.db?mode=rwc&busy_seconds=5&synchronous=normal&listen=off", SqliteStore),
        ("SQLite:///streams.db", SqliteStore),
    ],
)
def test_a_url_names_a_store(url: str, kind: type) -> None:
    assert type(open_store(url)) is kind


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("", "write sqlite:///file.db, memory:// or postgresql://"),
        ("streams.db", "'streams.db' is not a database that streams knows: write sqlite:///file.db"),
        ("mysql://host/db", "'mysql' is not a database that streams knows"),
        ("postgresql://me:secret@host/db?sslmod=on", "unknown parameter 'sslmod'; known are application_name"),
        ("postgresql://host/db?listen=perhaps", "listen='perhaps' is not one of on, off"),
        ("postgresql://host:port/db", "its port is no number"),
        ("memory://x", "write memory:// and nothing behind it"),
        ("memory:", "write memory:// and nothing behind it"),
        ("sqlite://streams.db", "write sqlite:///relative.db, or sqlite:////absolute.db"),
        ("sqlite:///", "write sqlite:///relative.db, or sqlite:////absolute.db"),
        ("sqlite:///a.db?busy=5", "unknown parameter 'busy'; known are busy_seconds, listen, mode, synchronous, vfs"),
        ("sqlite:///a.db?synchronous=off", "synchronous='off' is not one of full, normal"),
        ("sqlite:///a.db?mode=w", "mode='w' is not one of ro, rw, rwc, memory"),
        ("sqlite:///a.db?busy_seconds=-1", "busy_seconds='-1' is not a number of seconds"),
        ("sqlite://[", "url='sqlite://[' is no URL"),
    ],
)
async def test_a_bad_url_is_an_error_that_says_what_to_write(url: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        open_store(url)
    assert sentence in str(refused.value)
    with pytest.raises(SettingsError) as refused:
        async with Streams(url):
            pass
    assert sentence in str(refused.value)


@pytest.mark.parametrize("schema", ["", "Shop", "7", "a-b", "a b", "a;b", 'a"b', "schéma", "a" * 49, "shop\n"])
async def test_a_bad_schema_is_an_error_that_names_it(schema: str) -> None:
    with pytest.raises(SettingsError, match="schema="):
        async with Streams("memory://", schema=schema):
            pass


async def test_a_schema_keeps_two_systems_apart_in_one_file(tmp_path: Path) -> None:
    apps = [Streams(f"sqlite:///{tmp_path}/streams.db", schema=schema) for schema in ("shop", "_mine7")]
    topics = [app.topic("orders", int) for app in apps]
    async with apps[0], apps[1]:
        assert [(await topic.publish("a", 1)).offset for topic in topics] == [1, 1]


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        ("memory://", True),
        ("sqlite:///:memory:", True),
        ("sqlite:///shop?mode=memory", True),
        ("sqlite:///memory.db", False),
        ("postgresql://host/memory", False),
    ],
)
def test_a_database_in_memory_is_known_by_its_url(url: str, answer: bool) -> None:
    assert in_memory(url) is answer


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("schema", ["sqlite", "sqlite_mine", "pg_mine"])
def test_a_schema_of_the_databases_own_is_refused(schema: str) -> None:
    with pytest.raises(SettingsError, match="belongs to the database itself"):
        open_store("memory://", schema=schema)

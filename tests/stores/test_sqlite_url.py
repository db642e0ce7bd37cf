"""A URL names a file and how to open it; one that cannot be is a typed error that says what can."""

import re
import sqlite3
from pathlib import Path

import pytest

from streams.errors import SettingsError
from streams.stores import open_store
from streams.stores.memory import MemoryStore
from streams.stores.sqlite.store import SqliteStore
from streams.stores.sqlite.url import SqliteUrl, connect, parse


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///streams.db", "streams.db"),
        ("sqlite:///a/b/streams.db", "a/b/streams.db"),
        ("sqlite:////var/lib/streams.db", "/var/lib/streams.db"),
        ("sqlite:///my%20file%3F.db", "my file?.db"),
        ("sqlite:///höhe.db", "höhe.db"),
        ("sqlite:///~/streams.db", str(Path("~/streams.db").expanduser())),
    ],
)
def test_three_slashes_are_relative_and_four_are_absolute(url: str, path: str) -> None:
    assert parse(url) == SqliteUrl(path, "full", 30.0, listen=True, memory=False, query="")


def test_our_parameters_are_taken() -> None:
    parsed = parse("sqlite:///a.db?synchronous=normal&busy_seconds=0.5&listen=off")
    assert (parsed.synchronous, parsed.busy_seconds, parsed.listen) == ("normal", 0.5, False)
    assert parsed.uri == "file:a.db"


def test_the_drivers_parameters_are_passed_on() -> None:
    assert parse("sqlite:///a.db?mode=rw&busy_seconds=1&vfs=unix-excl").uri == "file:a.db?mode=rw&vfs=unix-excl"


def test_a_strange_name_reaches_the_driver_whole() -> None:
    assert parse("sqlite:///a%3Fmode=ro%23b%25.db").uri == "file:a%3Fmode%3Dro%23b%25.db"


@pytest.mark.parametrize("url", ["sqlite:///:memory:", "sqlite:///x?mode=memory"])
def test_every_in_memory_file_is_another(url: str) -> None:
    first, second = parse(url), parse(url)
    assert first.memory
    assert first.path != second.path


def test_a_file_that_went_away_is_not_made_again(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        connect(parse(f"sqlite:///{tmp_path}/gone.db"), create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:",
        "sqlite://streams.db",
        "sqlite://host/streams.db",
        "sqlite:streams.db",
        "sqlite:/streams.db",
        "sqlite:///streams.db#top",
        "sqlite:///a%00b.db",
    ],
)
def test_a_url_that_names_no_file_is_refused_with_one_that_does(url: str) -> None:
    with pytest.raises(SettingsError, match=re.escape("sqlite:///relative.db, or sqlite:////absolute.db")):
        parse(url)


@pytest.mark.parametrize("name", ["busy", "timeout", "Synchronous", "cache", ""])
def test_an_unknown_parameter_is_refused_with_those_that_are_known(name: str) -> None:
    known = "known are busy_seconds, listen, mode, synchronous, vfs"
    with pytest.raises(SettingsError, match=f"{name!r}; {known}"):
        parse(f"sqlite:///streams.db?listen=on&{name}=1")


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("synchronous=off", "synchronous='off' is not one of full, normal"),
        ("synchronous=", "synchronous='' is not one of full, normal"),
        ("mode=x", "mode='x' is not one of ro, rw, rwc, memory"),
        ("listen=yes", "listen='yes' is not one of on, off"),
        ("busy_seconds=soon", "busy_seconds='soon' is not a number of seconds from 0 to 86400"),
        ("busy_seconds=", "busy_seconds='' is not a number"),
        ("busy_seconds=-1", "busy_seconds='-1' is not a number"),
        ("busy_seconds=nan", "busy_seconds='nan' is not a number"),
        ("busy_seconds=inf", "busy_seconds='inf' is not a number"),
        ("busy_seconds=86401", "busy_seconds='86401' is not a number"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_those_that_can(query: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(sentence)):
        parse(f"sqlite:///streams.db?{query}")


@pytest.mark.parametrize(
    ("url", "kind"),
    [("memory://", MemoryStore), ("sqlite:///streams.db", SqliteStore), ("SQLITE:///streams.db", SqliteStore)],
)
def test_the_scheme_says_which_store(url: str, kind: type) -> None:
    assert isinstance(open_store(url), kind)


@pytest.mark.parametrize("url", ["", "streams.db", "mysql://localhost/db", "memory://x", "memory:///x?y=1"])
def test_a_url_of_no_store_is_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        open_store(url)


def test_what_is_no_url_is_refused() -> None:
    with pytest.raises(SettingsError, match="is no URL"):
        open_store("sqlite://[")

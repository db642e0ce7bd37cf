"""Database URLs: what is logged of them, and which are refused."""

import pytest

from streams import SettingsError
from streams.cli.url import refuse_in_memory, without_password


@pytest.mark.parametrize(
    ("url", "logged"),
    [
        ("sqlite:///streams.db", "sqlite:///streams.db"),
        ("sqlite:////var/lib/streams.db?synchronous=normal", "sqlite:////var/lib/streams.db?synchronous=normal"),
        ("postgresql://shop@db/shop", "postgresql://shop@db/shop"),
        ("postgresql://shop:secret@db/shop", "postgresql://shop:***@db/shop"),
        ("postgresql://shop:s:e@c@db1:5432,db2/shop?x=1", "postgresql://shop:***@db1:5432,db2/shop?x=1"),
        ("postgresql://shop:a/b?c@db/shop", "postgresql://shop:***@db/shop"),
        ("postgresql://db/shop?user=a&password=secret", "postgresql://db/shop?user=a&password=***"),
        ("postgresql:///shop?sslpassword=secret&host=/run", "postgresql:///shop?sslpassword=***&host=/run"),
    ],
)
def test_a_url_is_logged_without_its_password(url: str, logged: str) -> None:
    assert without_password(url) == logged


@pytest.mark.parametrize("url", ["memory://", "sqlite:///:memory:", "sqlite:///file?mode=memory"])
def test_what_lives_inside_one_process_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="lives inside one process"):
        refuse_in_memory(url)


@pytest.mark.parametrize("url", ["sqlite:///streams.db", "postgresql://db/shop"])
def test_what_others_can_reach_is_not_refused(url: str) -> None:
    refuse_in_memory(url)

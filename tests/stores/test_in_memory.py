"""Databases that live inside one process: which they are, and that an app keeps its own between two entries."""

import pytest

from streams import Streams
from streams.errors import SettingsError
from streams.stores import in_memory


@pytest.mark.parametrize(
    ("url", "inside"),
    [
        ("memory://", True),
        ("sqlite:///:memory:", True),
        ("sqlite:///name?mode=memory", True),
        ("sqlite:///streams.db", False),
        ("sqlite:////var/lib/streams.db?synchronous=normal", False),
        ("postgresql://db/shop", False),
    ],
)
def test_a_url_tells_whether_its_database_lives_inside_one_process(url: str, inside: bool) -> None:
    assert in_memory(url) is inside


def test_a_url_that_cannot_be_is_refused() -> None:
    with pytest.raises(SettingsError, match="names no SQLite file"):
        in_memory("sqlite://")
    with pytest.raises(SettingsError, match="is no URL"):
        in_memory("sqlite://[")


@pytest.mark.parametrize("url", ["memory://", "sqlite:///:memory:", "sqlite:///name?mode=memory"])
async def test_an_app_keeps_what_is_in_memory_between_two_entries(url: str) -> None:
    app = Streams(url)
    topic = app.topic("orders", dict)
    async with app:
        await topic.publish("customer-7", {"total": 1})
    async with app:
        assert [row.records for row in await app.admin.topics()] == [1]

"""Options have one name as argument, flag and variable."""

from dataclasses import fields

from streams.cli.options import WorkerSettings
from streams.settings import Settings


def test_every_setting_is_a_flag_of_the_worker() -> None:
    assert [field.name for field in fields(WorkerSettings)] == list(Settings.__struct_fields__)


def test_what_was_not_given_is_not_the_default() -> None:
    assert not WorkerSettings().given()
    assert WorkerSettings(url="sqlite:///x.db", lease_seconds=10.0).given() == {
        "url": "sqlite:///x.db",
        "lease_seconds": 10.0,
    }

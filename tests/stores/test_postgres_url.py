"""`postgresql://…` URLs: what the driver gets, and that no password is shown."""

import pytest

from streams.errors import SettingsError
from streams.stores import open_store
from streams.stores.postgres.url import parse


def test_our_own_parameters_are_not_the_drivers() -> None:
    parsed = parse("postgresql://shop:secret@db:5433/shop?listen=off&sslmode=require")
    assert parsed.dsn == "postgresql://shop:secret@db:5433/shop?sslmode=require"
    assert (parsed.place, parsed.listen, parsed.statement_cache) == ("db:5433/shop", False, True)


def test_of_several_hosts_the_one_that_can_be_written_to_is_meant() -> None:
    assert "target_session_attrs=read-write" in parse("postgresql://db1:5432,db2/shop").dsn


@pytest.mark.parametrize("host", ["db", "db:5432", "[::1]", "[::1]:5432", "db1:5432,db2", "127.0.0.1:1", ""])
def test_hosts_come_in_all_shapes(host: str) -> None:
    assert parse(f"postgresql://shop:s%2Fe%23c@{host}/shop").place == f"{host}/shop"
    assert parse(f"postgresql://{host}/shop?user=a@b&password=c@d").place == f"{host}/shop"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://shop:se#cret@db/shop",
        "postgresql://shop:se/cret@db/shop",
        "postgresql://shop:se?cret@db/shop",
        "postgresql://shop:1234/cret@db/shop",
        "postgresql://shop:se[cret@db/shop",
        "postgresql://shop:secret",
    ],
)
def test_what_a_torn_url_says_shows_nothing_of_a_password(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        open_store(url)
    assert "se" not in str(caught.value).replace("password", "").replace("user", "").replace("sqlite", "")
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize("parameter", ["bogus=1", "listen=maybe", "statement_cache=1"])
def test_a_parameter_that_cannot_be_is_refused(parameter: str) -> None:
    with pytest.raises(SettingsError, match=parameter.partition("=")[0]):
        parse(f"postgresql://shop:secret@db/shop?{parameter}")

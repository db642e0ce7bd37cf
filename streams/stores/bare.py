"""Opening the yardstick of the database that a URL names."""

from typing import Literal

from streams.errors import SettingsError
from streams.stores.yardstick import Bare, BareServer

Kind = Literal["sqlite", "postgresql"]


def kind_of(url: str) -> Kind:
    """Which database a URL names.

    Raises:
        SettingsError: one for which there is no such yardstick.
    """
    match url.partition(":")[0]:
        case "sqlite":
            return "sqlite"
        case "postgresql" | "postgres":
            return "postgresql"
        case other:
            raise SettingsError(f"{other} cannot be measured; use sqlite:///file.db or postgresql://…")


async def open_bare(url: str, *, schema: str) -> Bare:
    """On the database that a URL names. It has to have our tables.

    Raises:
        SettingsError: a database for which there is no such yardstick.
    """
    if kind_of(url) == "postgresql":
        return await open_bare_server(url, schema=schema)
    from streams.stores.sqlite.bare import SqliteBare

    return SqliteBare(url, schema=schema)


async def open_bare_server(url: str, *, schema: str) -> BareServer:
    """The same, of a database that many share."""
    from streams.stores.postgres.bare import PostgresBare

    return await PostgresBare.connect(url, schema=schema)

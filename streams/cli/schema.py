"""`streams migrate` and `streams sql`: bringing a database's schema up to date, by us or by hand."""

from collections.abc import Callable
from urllib.parse import urlsplit

import anyio

from streams.cli.options import DATABASE, LOGGING, Database, Json, Logging
from streams.cli.terminal import print_json, say
from streams.cli.url import without_password
from streams.errors import MigrationNeeded, SettingsError
from streams.settings import resolve
from streams.stores import open_store
from streams.stores.statements import Migration, in_schema, migrations


def migrate(*, database: Database = DATABASE, logging: Logging = LOGGING) -> None:
    """Bring the schema up to date; make the database when it is a file that is missing.

    Several may do so at once. Programs do it by themselves unless they are told not to.
    """
    logging.set_up()
    say(anyio.run(_migrate, database))


async def _migrate(database: Database) -> str:
    app = database.app(migrate="never")
    name = without_password(app.settings.url)
    try:
        async with app:
            return f"{name}: the schema is up to date, there was nothing to do."
    except MigrationNeeded:
        async with database.app(migrate="auto"):  # Says so again if migrating does not help.
            return f"{name}: the schema was brought up to date."


def sql(*, database: Database = DATABASE, as_json: Json = False, logging: Logging = LOGGING) -> None:
    """Print the migrations as SQL for an empty database, for those who apply them by hand.

    Whatever is applied so is recognized: `streams sql | sqlite3 streams.db`. The URL says only for which database:
    `streams sql --url postgresql:// | psql`.
    """
    logging.set_up()
    settings = resolve(database.given(), {})
    open_store(settings.url, schema=settings.schema)  # Refuses what cannot be.
    package, script = _sql_of(settings.url)
    if as_json:
        print_json([_as_json(step, settings.schema) for step in migrations(package)])
    else:
        print(script(settings.schema), end="")


def _sql_of(url: str) -> tuple[str, Callable[[str], str]]:
    """Where a database's migrations are, and what makes a script of them for a schema."""
    match urlsplit(url).scheme:
        case "sqlite":
            from streams.stores.sqlite import schema as sqlite

            return sqlite.PACKAGE, sqlite.script
        case "postgresql" | "postgres":
            from streams.stores.postgres import schema as postgres

            return postgres.PACKAGE, postgres.script
        case _:
            raise SettingsError(f"{url}: this database has no SQL; name another with --url, as sqlite:///any.db")


def _as_json(step: Migration, schema: str) -> dict[str, object]:
    return {
        "number": step.number,
        "name": step.name,
        "checksum": step.checksum,
        "breaking": step.breaking,
        "sql": in_schema(step.sql, schema),
    }

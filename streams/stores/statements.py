"""Reading SQL from `.sql` files: statements by name, and numbered migrations."""

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from streams.errors import MigrationNeeded

DEFAULT_SCHEMA = "streams"


class Migration(NamedTuple):
    """One numbered step of a schema. `breaking`: older versions of the code cannot use the result."""

    number: int
    name: str
    sql: str
    checksum: str
    breaking: bool


@cache
def statements(package: str, schema: str = DEFAULT_SCHEMA) -> dict[str, str]:
    """All statements in a package's `sql/` folder, each under its `-- name:`."""
    found: dict[str, str] = {}
    for file in sorted(files(package).joinpath("sql").iterdir(), key=lambda file: file.name):
        for part in file.read_text(encoding="utf-8").split("-- name: ")[1:]:
            name, _, sql = part.partition("\n")
            assert name not in found, f"two statements are named {name}"
            found[name.strip()] = in_schema(re.sub(r"^--.*\n", "", sql, flags=re.MULTILINE).strip(), schema)
    return found


@cache
def migrations(package: str) -> tuple[Migration, ...]:
    """A package's migrations in order, as written (in the default schema)."""
    found = []
    for file in sorted(files(package).joinpath("migrations").iterdir(), key=lambda file: file.name):
        number, _, name = file.name.removesuffix(".sql").partition("_")
        sql = file.read_text(encoding="utf-8")
        checksum = hashlib.sha256(sql.encode()).hexdigest()
        found.append(Migration(int(number), name, sql, checksum, sql.startswith("-- breaking")))
    return tuple(found)


def missing(package: str, applied: Mapping[int, tuple[str, str, bool]]) -> list[Migration]:
    """The migrations that a database lacks, lowest first; `applied` are (name, checksum, breaking) by number.

    Raises:
        MigrationNeeded: it was made by a newer version that this one cannot work with, or by other migrations.
    """
    known = {migration.number: migration for migration in migrations(package)}
    for number, (name, checksum, breaking) in applied.items():
        if number in known and known[number].checksum != checksum:
            raise MigrationNeeded(
                f"migration {number} ({name}) in the database is not the one of this version of ordered-streams; "
                f"the database was made by an unreleased state: use a fresh one"
            )
        if number not in known and breaking:
            raise MigrationNeeded(
                f"the database has migration {number} ({name}), which this version of ordered-streams cannot work "
                f"with; upgrade ordered-streams"
            )
    return [migration for number, migration in sorted(known.items()) if number not in applied]


_NAMES = re.compile(rf"'{DEFAULT_SCHEMA}'::regnamespace|\b{DEFAULT_SCHEMA}\.|{DEFAULT_SCHEMA}_")


def in_schema(sql: str, schema: str) -> str:
    """SQL written for the default schema, for another.

    Its name is the prefix of every object in SQLite, and a schema of its own in PostgreSQL.
    """
    if schema == DEFAULT_SCHEMA:
        return sql
    written = {
        f"'{DEFAULT_SCHEMA}'::regnamespace": f"'\"{schema}\"'::regnamespace",
        f"{DEFAULT_SCHEMA}.": f'"{schema}".',
        f"{DEFAULT_SCHEMA}_": f"{schema}_",
    }
    return _NAMES.sub(lambda match: written[match[0]], sql)  # All at once: a schema may be called streams_2.

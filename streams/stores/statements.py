"""Reading SQL from `.sql` files: statements by name, and numbered migrations."""

import hashlib
import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

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


def in_schema(sql: str, schema: str) -> str:
    """SQL written for the default schema, for another: its name is the prefix of every object."""
    return sql if schema == DEFAULT_SCHEMA else sql.replace(f"{DEFAULT_SCHEMA}_", f"{schema}_")

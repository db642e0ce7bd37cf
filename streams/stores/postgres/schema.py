"""Bringing the schema of a PostgreSQL database up to date: numbered, checksummed, safe from several at once."""

import asyncpg

from streams.errors import MigrationNeeded
from streams.stores import statements
from streams.stores.statements import Migration, in_schema, migrations

PACKAGE = "streams.stores.postgres"

_TABLE = """
CREATE TABLE IF NOT EXISTS streams.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    breaking boolean NOT NULL,
    applied_at bigint NOT NULL
)
"""
_ADD = "INSERT INTO streams.migrations (number, name, checksum, breaking, applied_at)"
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


async def missing(connection: asyncpg.Connection, schema: str) -> list[Migration]:
    """The migrations that the database lacks, lowest first; see `statements.missing`."""
    if await connection.fetchval("SELECT to_regclass($1)", f'"{schema}".migrations') is None:
        applied = {}
    else:
        rows = await connection.fetch(
            in_schema("SELECT number, name, checksum, breaking FROM streams.migrations", schema)
        )
        applied = {number: (name, checksum, breaking) for number, name, checksum, breaking in rows}
    return statements.missing(PACKAGE, applied)


async def apply(connection: asyncpg.Connection, schema: str) -> int:
    """Apply what is missing, all of it or nothing; how many were applied. Whoever else does so waits.

    Raises:
        MigrationNeeded: this role may not.
    """
    try:
        async with connection.transaction(isolation="read_committed"):
            await connection.execute(_lock(schema))
            if not await connection.fetchval("SELECT to_regnamespace($1) IS NOT NULL", f'"{schema}"'):
                await connection.execute(f'CREATE SCHEMA "{schema}"')
            steps = await missing(connection, schema)
            if steps:
                await connection.execute(in_schema(_TABLE, schema))
            for step in steps:
                await connection.execute(in_schema(step.sql, schema))
                await connection.execute(
                    in_schema(f"{_ADD} VALUES ($1, $2, $3, $4, {_NOW})", schema),
                    step.number,
                    step.name,
                    step.checksum,
                    step.breaking,
                )
    except asyncpg.InsufficientPrivilegeError as error:
        raise MigrationNeeded(
            f"this role may not make the schema {schema!r} ({error}); run `streams migrate` under one that may"
        ) from error
    return len(steps)


def script(schema: str) -> str:
    """All migrations as one script for an empty database; one made by it counts as migrated."""
    parts = [f'BEGIN ISOLATION LEVEL READ COMMITTED;\n\nCREATE SCHEMA "{schema}";\n']
    parts.append(f"{in_schema(_TABLE, schema).strip()};\n")
    for step in migrations(PACKAGE):
        row = f"{step.number}, '{step.name}', '{step.checksum}', {str(step.breaking).lower()}, {_NOW}"
        parts.append(f"-- Migration {step.number:04}_{step.name}\n\n{in_schema(step.sql, schema).strip()}\n")
        parts.append(in_schema(f"{_ADD}\nVALUES ({row});\n", schema))
    return "\n".join([*parts, "COMMIT;\n"])


def _lock(schema: str) -> str:
    """One at a time; the schema is a plain identifier."""
    return f"SELECT pg_advisory_xact_lock(hashtextextended('ordered-streams migrations of {schema}', 0))"

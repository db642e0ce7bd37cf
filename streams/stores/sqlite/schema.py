"""Bringing a SQLite file's schema up to date: numbered, checksummed, safe from several processes at once."""

import sqlite3
from collections.abc import Iterator

from streams.stores import statements
from streams.stores.sqlite.connection import Transaction
from streams.stores.statements import Migration, in_schema, migrations

PACKAGE = "streams.stores.sqlite"

_TABLE = """
CREATE TABLE IF NOT EXISTS streams_migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    breaking INTEGER NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT
"""


def missing(tx: Transaction, schema: str) -> list[Migration]:
    """The migrations that the file lacks, lowest first; see `statements.missing`."""
    return statements.missing(PACKAGE, _applied(tx, schema))


def apply(tx: Transaction, schema: str, now: int) -> int:
    """Apply what is missing, inside a transaction that holds the write lock; how many were applied."""
    tx.cursor.execute(in_schema(_TABLE, schema))
    steps = missing(tx, schema)
    for step in steps:
        for statement in split(in_schema(step.sql, schema)):
            tx.cursor.execute(statement)
        tx.cursor.execute(
            in_schema("INSERT INTO streams_migrations VALUES (?, ?, ?, ?, ?)", schema),
            (step.number, step.name, step.checksum, step.breaking, now),
        )
    return len(steps)


def script(schema: str) -> str:
    """All migrations as one script for an empty file; a file made by it counts as migrated."""
    parts = ["PRAGMA journal_mode = wal;\n\nBEGIN IMMEDIATE;\n", f"{in_schema(_TABLE, schema).strip()};\n"]
    for step in migrations(PACKAGE):
        row = f"{step.number}, '{step.name}', '{step.checksum}', {int(step.breaking)}, strftime('%s', 'now') * 1000000"
        parts.append(f"-- Migration {step.number:04}_{step.name}\n\n{in_schema(step.sql, schema).strip()}\n")
        parts.append(in_schema(f"INSERT INTO streams_migrations VALUES ({row});\n", schema))
    return "\n".join([*parts, "COMMIT;\n"])


def split(script: str) -> Iterator[str]:
    """The statements of a script one by one: `executescript` would commit the transaction it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _applied(tx: Transaction, schema: str) -> dict[int, tuple[str, str, bool]]:
    table = f"{schema}_migrations"
    tx.cursor.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (table,))
    if tx.cursor.fetchone() is None:
        return {}
    tx.cursor.execute(f"SELECT number, name, checksum, breaking FROM {table}")
    return {number: (name, checksum, bool(breaking)) for number, name, checksum, breaking in tx.cursor}

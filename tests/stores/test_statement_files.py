"""Statements live in `.sql` files under names of their own, each with a sentence, and every one is used."""

import re
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import pytest

from streams.stores.sqlite.schema import PACKAGE
from streams.stores.statements import in_schema, migrations, statements

SOURCE = Path(str(files(PACKAGE)))


def test_every_statement_has_a_sentence() -> None:
    for file in sorted((SOURCE / "sql").glob("*.sql")):
        for part in file.read_text(encoding="utf-8").split("-- name: ")[1:]:
            _, sentence, *_ = part.splitlines()
            assert re.match(r"-- [A-Z].*", sentence), part


def test_no_statement_keeps_its_comments() -> None:
    assert not [name for name, sql in statements(PACKAGE).items() if "--" in sql]


def test_every_statement_is_used() -> None:
    code = "".join(file.read_text(encoding="utf-8") for file in SOURCE.glob("*.py"))
    assert not [name for name in statements(PACKAGE) if f'"{name}"' not in code]


def test_every_object_of_another_schema_has_its_name() -> None:
    for name, sql in statements(PACKAGE, "shop").items():
        assert "streams_" not in sql, name
    for step in migrations(PACKAGE):
        assert "streams_" not in in_schema(step.sql, "shop")


def test_the_default_schema_is_what_the_files_say() -> None:
    assert in_schema("SELECT * FROM streams_topics", "streams") == "SELECT * FROM streams_topics"


def test_a_checksum_is_of_the_file_as_it_is() -> None:
    for step in migrations(PACKAGE):
        file = SOURCE / "migrations" / f"{step.number:04}_{step.name}.sql"
        assert step.checksum == sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("schema", ["shop", "streams_2", "streams_streams"])
def test_a_schema_is_named_once_whatever_it_is_called(schema: str) -> None:
    sql = "SELECT 'streams'::regnamespace, 'streams_' FROM streams.topics JOIN streams_topics, upstreams.x"
    assert in_schema(sql, schema) == (
        f"SELECT '\"{schema}\"'::regnamespace, '{schema}_' FROM \"{schema}\".topics JOIN {schema}_topics, upstreams.x"
    )

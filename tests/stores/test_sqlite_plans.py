"""The statements that run for every fetch, commit, publish and beat find their rows by primary key."""

import re
import sqlite3

import pytest

from streams.stores.sqlite.schema import PACKAGE
from streams.stores.sqlite.store import SqliteStore
from streams.stores.statements import statements

PLANS = {
    # The log.
    "topic": ["SEARCH streams_topics USING INDEX sqlite_autoindex_streams_topics_1 (name=?)"],
    "take_offsets": ["SEARCH streams_partitions USING PRIMARY KEY (topic_id=? AND partition=?)"],
    "ends": ["SEARCH streams_partitions USING PRIMARY KEY (topic_id=?)"],
    "fetch": ["SEARCH streams_records USING PRIMARY KEY (topic_id=? AND partition=? AND offset>? AND offset<?)"],
    # Coordination.
    "group_id": [
        "SEARCH t USING COVERING INDEX sqlite_autoindex_streams_topics_1 (name=?)",
        "SEARCH g USING COVERING INDEX sqlite_autoindex_streams_groups_1 (name=? AND topic_id=?)",
    ],
    "member": ["SEARCH streams_members USING PRIMARY KEY (member=?)"],
    "beat": ["SEARCH streams_members USING PRIMARY KEY (member=?)"],
    "leases": ["SEARCH streams_leases USING PRIMARY KEY (group_id=?)"],
    "release": ["SEARCH streams_leases USING PRIMARY KEY (group_id=? AND partition=?)"],
    "last_offset": [
        "SEARCH g USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH p USING PRIMARY KEY (topic_id=? AND partition=?)",
    ],
    # Settlement.
    "fence": ["SEARCH streams_leases USING PRIMARY KEY (group_id=? AND partition=?)"],
    "append_progress": [
        "SEARCH streams_settlements USING PRIMARY KEY (group_id=? AND partition=? AND (epoch,number)>(?,?))"
    ],
    "prune_progress": [
        "SEARCH streams_settlements USING PRIMARY KEY (group_id=? AND partition=? AND (epoch,number)<(?,?))"
    ],
    "progress": ["SEARCH streams_settlements USING PRIMARY KEY (group_id=? AND partition=?)"],
    "unpark": ["SEARCH streams_parked USING PRIMARY KEY (group_id=? AND partition=? AND offset=?)"],
    "parked": ["SEARCH streams_parked USING PRIMARY KEY (group_id=? AND partition=?)"],
    "acquire": ["SEARCH streams_leases USING PRIMARY KEY (group_id=? AND partition=?)"],
}

SCANS = {"acquire": ["SCAN streams_members"]}
"""Its list of living members is read once, and is as short as the fleet."""


def plan(connection: sqlite3.Connection, sql: str) -> list[str]:
    """The steps of a statement, as SQLite explains them."""
    named = set(re.findall(r":(\w+)", sql))
    arguments = dict.fromkeys(named) if named else (None,) * sql.count("?")
    return [detail for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments)]


@pytest.mark.parametrize("name", PLANS)
async def test_a_hot_statement_finds_its_rows_by_key(
    store: SqliteStore, connection: sqlite3.Connection, name: str
) -> None:
    steps = plan(connection, statements(PACKAGE)[name])
    assert sorted(step for step in steps if step.startswith("SEARCH")) == sorted(PLANS[name])
    assert [step for step in steps if step.startswith("SCAN") and "CONSTANT ROW" not in step] == SCANS.get(name, [])
    assert not [step for step in steps if "TEMP B-TREE" in step]

"""Files made by earlier states of the code are opened, migrated, and gone on with from their positions."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from streams import Streams
from streams.stores.rows import DeadLetter
from streams.stores.sqlite.schema import PACKAGE
from streams.stores.statements import migrations
from tests.system.fleet import Fleet, until
from tests.system.landing import DEAD, GROUP, KEYS, RECORDS, key_of, settled

LANDED = sorted((Path(__file__).parent / "landed").glob("*.sql"))


def make(fleet: Fleet, script: Path) -> None:
    """The file as it was left."""
    with closing(sqlite3.connect(fleet.folder / "fleet.db")) as connection:
        connection.executescript(f"PRAGMA journal_mode = wal; {script.read_text(encoding='utf-8')}")


def dead(fleet: Fleet) -> list[DeadLetter]:
    async def look() -> list[DeadLetter]:
        async with Streams(fleet.url, migrate="never") as app:
            return await app.admin.dead.list()

    return anyio.run(look)


@pytest.mark.parametrize("script", LANDED, ids=lambda script: script.stem)
def test_a_file_of_an_earlier_state_goes_on_where_it_was_left(fleet_of: Callable[..., Fleet], script: Path) -> None:
    fleet = fleet_of()
    make(fleet, script)
    left = [number for number in range(RECORDS) if not settled(number)]
    for number in left:
        fleet.published[key_of(number)].append(number)
    fleet.start()
    until(lambda: fleet.handled(len(left)), "what was left is handled")
    fleet.publish((key_of(number), number) for number in range(RECORDS, RECORDS + KEYS))
    until(lambda: fleet.handled(len(left) + KEYS), "and what is new")
    until(lambda: fleet.groups()[GROUP].lag == 0, "all settled")

    journal = fleet.journal()
    assert journal.violations(fleet.published) == []
    assert len(journal.all()) == len(left) + KEYS, "nothing that was settled is repeated"
    assert min(run.epoch for run in journal.all()) == 2, "above the last owner's"
    assert fleet.groups()["late"].lag == KEYS
    published = [number for number in range(RECORDS + KEYS) if number != DEAD]
    assert fleet.doubled() == {
        key_of(first): [2 * number for number in published if key_of(number) == key_of(first)] for first in range(KEYS)
    }
    (letter,) = dead(fleet)
    assert (letter.key, letter.payload, letter.attempts, letter.error) == (
        *(key_of(DEAD), str(DEAD).encode()),
        *(12, "ValueError: no"),
    )


def test_there_is_a_file_of_every_state_of_the_schema() -> None:
    assert [script.stem for script in LANDED] == [f"{step.number:04}_{step.name}" for step in migrations(PACKAGE)]

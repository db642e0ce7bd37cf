"""A row and a record in one transaction: both are committed, or neither is."""

import os
import sqlite3
from contextlib import closing
from tempfile import TemporaryDirectory

import anyio

from streams import Streams

app = Streams()
signups = app.topic("signups", str)
welcomed: list[str] = []


@signups.subscribe(group="welcome")
async def welcome(name: str) -> None:
    welcomed.append(name)


async def sign_up(database: sqlite3.Connection, name: str) -> None:
    """The row opens the transaction, and the record joins it. `with` commits both, or rolls both back."""
    with database:
        database.execute("INSERT OR REPLACE INTO example_users (name) VALUES (?)", (name,))
        await signups.publish(name, name, connection=database)
        if name == "mallory":
            raise PermissionError(name)


async def main() -> None:
    path = app.settings.url.removeprefix("sqlite:///").partition("?")[0]
    async with app:
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE IF NOT EXISTS example_users (name TEXT PRIMARY KEY)")
            for name in ("ada", "mallory", "grace"):
                try:
                    await sign_up(database, name)
                except PermissionError:
                    print(f"{name}: rolled back, row and record")
            users = [name for (name,) in database.execute("SELECT name FROM example_users ORDER BY name")]
        await app.work(until_idle=True)
    assert users == sorted(welcomed) == ["ada", "grace"]
    print(f"committed, and welcomed: {', '.join(users)}")


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        os.environ.setdefault("STREAMS_URL", f"sqlite:///{folder}/signups.db")
        anyio.run(main)

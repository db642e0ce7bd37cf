"""A folder to run commands in, and a database in it with something to see."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from streams import Context, DeadLetter, Streams
from tests.cli.processes import Cli, Here
from tests.servers.server import Server


@pytest.fixture(autouse=True)
def logging_is_put_back() -> Iterator[None]:
    """Commands that run in this process set it up."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(tmp_path)
    yield cli
    cli.close()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "streams.db"
    app = Streams(f"sqlite:///{path}")
    orders = app.topic("orders", dict, partitions=2)
    app.topic("blobs", bytes, partitions=1)
    app.topic("packed", dict, partitions=1, codec="msgpack")

    @orders.subscribe(group="billing")
    async def bill(order: dict[str, int], ctx: Context) -> None:
        if order["total"] < 0:
            raise DeadLetter("negative total")

    async def fill() -> None:
        async with app:
            await orders.publish("customer-7", {"total": 1})
            await orders.publish("customer-7", {"total": -1}, headers={"from": "shop"})
            await orders.publish("customer-8", {"total": 2})
            await app.work(until_idle=True)

    anyio.run(fill)
    return path


@pytest.fixture
def database(filled: Path, tmp_path: Path) -> Path:
    """`streams.db` with three topics; of orders, billing has handled two records and given up on one."""
    return Path(shutil.copy(filled, tmp_path / "streams.db"))


@pytest.fixture
def postgres(server: Server) -> Iterator[str]:
    """The URL of an empty PostgreSQL database, dropped after the test."""
    url = server.create_database()
    yield url
    server.drop_database(url)


SHOP = """
import anyio
from streams import Streams

app = Streams()
orders = app.topic("orders", dict, partitions=4)

@orders.subscribe(group="billing")
async def bill(order: dict) -> None:
    print("billed", order, flush=True)
    if "seconds" in order:
        await anyio.sleep(order["seconds"])
    print("done", order, flush=True)

@orders.subscribe(group="audit")
async def audit(order: dict) -> None:
    print("audited", order, flush=True)
"""


@pytest.fixture
def shop(cli: Cli) -> Cli:
    """The command line in the folder of `shop.py`, whose app has the groups billing and audit of orders."""
    cli.write("shop.py", SHOP)
    return cli

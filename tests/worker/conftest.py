"""The settings that the worker runs in: a store, an event loop, and in some a clock that jumps whenever all wait."""

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from streams.clock import boottime
from streams.stores.memory import MemoryStore
from streams.stores.protocol import Store
from streams.stores.sqlite.store import SqliteStore
from streams.stores.sqlite.url import parse
from tests.worker.bench import Bench
from tests.worker.ledger import Ledger
from tests.worker.setting import ORDINARY, Setting


@pytest.fixture(params=ORDINARY, ids=str)
def setting(request: pytest.FixtureRequest) -> Setting:
    """Tests choose others with `in_settings`."""
    found: Setting = request.param
    return found


@pytest.fixture
def anyio_backend(setting: Setting) -> Any:
    if setting.virtual:
        return setting.backend, {"clock": MockClock(autojump_threshold=0)}
    return setting.backend


def wall_micros() -> int:
    return time.time_ns() // 1000


def virtual_micros() -> int:
    return round(anyio.current_time() * 1_000_000)


@pytest.fixture
def real_store(setting: Setting, tmp_path: Path) -> Store:
    if setting.store == "sqlite":
        return SqliteStore(parse(f"sqlite:///{tmp_path}/streams.db?synchronous=normal"))
    return MemoryStore(clock=virtual_micros if setting.virtual else wall_micros)


@pytest.fixture
def make_bench(setting: Setting, real_store: Store) -> Callable[..., Bench]:
    """The test's app, with a clock and options of its own; not entered yet."""

    def make(*, clock: Callable[[], float] | None = None, heart_in_thread: bool = True, **options: Any) -> Bench:
        return Bench(
            real_store,
            clock=clock or (anyio.current_time if setting.virtual else boottime),
            heart_in_thread=heart_in_thread and not setting.virtual,
            limit_seconds=36_000 if setting.virtual else 20,
            **options,
        )

    return make


@pytest.fixture
async def bench(make_bench: Callable[..., Bench]) -> AsyncIterator[Bench]:
    async with make_bench() as bench:
        yield bench


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()

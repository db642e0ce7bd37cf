"""A machine that slept: both clocks have jumped, the event loop's has not, and all its leases have expired."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from streams import Context
from streams.clock import boottime
from streams.stores.memory import MemoryStore
from streams.stores.protocol import Store
from streams.stores.sqlite.store import SqliteStore
from streams.stores.sqlite.url import parse
from tests.worker.bench import Bench, until
from tests.worker.conftest import virtual_micros, wall_micros
from tests.worker.ledger import Ledger
from tests.worker.setting import Setting

HOUR = 3_600.0
KEYS, ROUNDS = 20, 30


class Machine:
    """What its clocks say: that of the database, and the one that counts time asleep."""

    def __init__(self, *, virtual: bool) -> None:
        self.slept_seconds = 0.0
        self._virtual = virtual

    def boottime(self) -> float:
        return (anyio.current_time() if self._virtual else boottime()) + self.slept_seconds

    def micros(self) -> int:
        return (virtual_micros if self._virtual else wall_micros)() + round(self.slept_seconds * 1_000_000)


@pytest.fixture
def machine(setting: Setting) -> Machine:
    return Machine(virtual=setting.virtual)


@pytest.fixture
def real_store(setting: Setting, machine: Machine, tmp_path: Path) -> Store:
    if setting.store == "sqlite":
        return SqliteStore(parse(f"sqlite:///{tmp_path}/streams.db?synchronous=normal"), clock=machine.micros)
    return MemoryStore(clock=machine.micros)


@pytest.fixture
async def bench(setting: Setting, real_store: Store, machine: Machine) -> AsyncIterator[Bench]:
    heart_in_thread = not setting.virtual
    async with Bench(
        real_store, clock=machine.boottime, heart_in_thread=heart_in_thread, limit_seconds=20, lease_seconds=2
    ) as bench:
        yield bench


def declare(bench: Bench, ledger: Ledger, starts: list[tuple[int, int]]) -> None:
    orders = bench.app.topic("orders", int, partitions=8)
    doubled = bench.app.topic("doubled", int, partitions=1)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            starts.append((ctx.partition, ctx.epoch))
            await anyio.sleep(0.02)
            ctx.publish(doubled, ctx.key, number * 2)


async def test_workers_of_a_machine_that_slept_join_again_and_lose_nothing(
    bench: Bench, ledger: Ledger, machine: Machine
) -> None:
    starts: list[tuple[int, int]] = []  # (partition, epoch)
    declare(bench, ledger, starts)
    async with bench.another() as other:
        declare(other, ledger, starts)
        async with bench.at_work(), other.at_work():
            await bench.shared(4, 4)
            members = {row.member for row in await bench.store.members()}
            epochs = [one.epoch for one in (await bench.status("billing")).partitions]
            await bench.app.publish_many("orders", ((f"key-{k}", n) for n in range(ROUNDS) for k in range(KEYS)))
            await ledger.reaches(KEYS * 3)
            machine.slept_seconds = HOUR
            begun = len(starts)
            await bench.shared(4, 4)
            await until(lambda: everything_is_handled(ledger))
            assert not members & {row.member for row in await bench.store.members()}, "no member comes back to life"
    # For a moment two may overlap: the database's clock has stepped forward too, which guarantee 6 names.
    assert not [found for found in ledger.violations if "while another ran" not in found]
    late = starts[begun:]
    assert late
    assert all(epoch > epochs[partition] for partition, epoch in late), "nothing starts under a lease of before"
    assert len(await bench.published("doubled")) == KEYS * ROUNDS, "what was repeated had not been committed"


def everything_is_handled(ledger: Ledger) -> bool:
    return {*ledger.ended} == {(f"key-{k}", n) for k in range(KEYS) for n in range(ROUNDS)}

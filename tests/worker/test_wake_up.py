"""News are noticed at once when somebody rings, and soon when nobody does."""

import anyio

from streams import Context
from tests.worker.bench import Bench
from tests.worker.ledger import Ledger
from tests.worker.setting import in_virtual_time

pytestmark = in_virtual_time


async def test_a_record_is_handled_as_soon_as_it_is_published(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            pass

    async with bench.at_work():
        await bench.shared(8)
        for number in range(20):
            await anyio.sleep(0.3)
            published = anyio.current_time()
            await orders.publish("key", number)
            await ledger.reaches(number + 1)
            assert anyio.current_time() - published < 0.05


async def test_nothing_depends_on_being_woken(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int)
    doubled = bench.app.topic("doubled", int)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            ctx.publish(doubled, ctx.key, number)

    @doubled.subscribe(group="billing")
    async def collect(number: int, ctx: Context) -> None:
        arrived.set()

    bench.faults.hold("rung")
    async with bench.at_work():
        await bench.shared(8)
        for number in range(20):
            await anyio.sleep(0.3)
            arrived = anyio.Event()
            published = anyio.current_time()
            await orders.publish("key", number)
            await arrived.wait()
            assert anyio.current_time() - published < 1
    assert not ledger.violations

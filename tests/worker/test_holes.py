"""What is not visible yet holds up nothing but the position, and with `order="partition"` its partition."""

import anyio
import pytest

from partition import Order
from streams import Context
from streams.stores.rows import Cursor, Hole
from tests.worker.bench import Bench, until
from tests.worker.hiding import HOLDERS, Hidden, HidingStore
from tests.worker.setting import MEMORY, VIRTUAL, Setting, in_settings

pytestmark = in_settings(MEMORY, VIRTUAL)

KEYS = ["a", "b", "c", "a", "c"]
"""Those of the records 1 to 5. Record 2 is hidden: b has no other, as if its transaction held the key."""


@pytest.fixture
def real_store(setting: Setting) -> HidingStore:
    if setting.virtual:
        return HidingStore(clock=lambda: round(anyio.current_time() * 1_000_000))
    return HidingStore()


@pytest.fixture
def hidden(real_store: HidingStore) -> Hidden:
    real_store.hidden.offsets.add(2)
    return real_store.hidden


@pytest.fixture
def handled() -> list[int]:
    """Offsets in the order of their handlers."""
    return []


async def prepare(bench: Bench, handled: list[int], order: Order) -> None:
    """Subscribe, and publish under the keys."""
    orders = bench.app.topic("orders", int, partitions=1)

    @orders.subscribe(group="billing", order=order)
    async def handle(number: int, ctx: Context) -> None:
        handled.append(ctx.offset)

    for number, key in enumerate(KEYS):
        await orders.publish(key, number)


async def reaches(bench: Bench, position: int, lag: int) -> None:
    """Return when the group is there by what is stored."""

    async def is_there() -> bool:
        status = await bench.status("billing")
        return [(one.position, one.lag) for one in status.partitions] == [(position, lag)]

    await until(is_there)


async def reads_on(bench: Bench, times: int = 3) -> None:
    """Return when so many reads more have found nothing new, as far as one can tell."""
    enough = len(bench.faults.calls["fetch"]) + times
    await until(lambda: len(bench.faults.calls["fetch"]) > enough)


def last_cursor(bench: Bench) -> Cursor:
    ((*_, cursor),) = bench.faults.calls["fetch"][-1]
    assert isinstance(cursor, Cursor)
    return cursor


async def test_what_lies_above_a_hole_is_handled_and_the_position_waits(
    bench: Bench, hidden: Hidden, handled: list[int]
) -> None:
    await prepare(bench, handled, "key")
    async with bench.at_work():
        await reaches(bench, 1, lag=1)
        assert sorted(handled) == [1, 3, 4, 5]
        await reads_on(bench)
        await reaches(bench, 1, lag=1)


async def test_a_record_that_fills_a_hole_is_handled_once(bench: Bench, hidden: Hidden, handled: list[int]) -> None:
    await prepare(bench, handled, "key")
    async with bench.at_work():
        await reaches(bench, 1, lag=1)
        hidden.offsets.clear()
        await reaches(bench, 5, lag=0)
        await reads_on(bench)
    assert handled[-1] == 2
    assert sorted(handled) == [1, 2, 3, 4, 5]


async def test_the_position_passes_a_hole_that_has_ended(bench: Bench, hidden: Hidden, handled: list[int]) -> None:
    await prepare(bench, handled, "key")
    async with bench.at_work():
        await reaches(bench, 1, lag=1)
        hidden.dead.add(2)
        await reaches(bench, 5, lag=0)
    assert sorted(handled) == [1, 3, 4, 5]


async def test_by_partition_nothing_beyond_a_hole_is_handled_before_it_is_filled(
    bench: Bench, hidden: Hidden, handled: list[int]
) -> None:
    await prepare(bench, handled, "partition")
    async with bench.at_work():
        await reaches(bench, 1, lag=4)
        await reads_on(bench)
        assert handled == [1]
        hidden.offsets.clear()
        await reaches(bench, 5, lag=0)
    assert handled == [1, 2, 3, 4, 5]


async def test_by_partition_all_go_on_behind_a_hole_that_has_ended(
    bench: Bench, hidden: Hidden, handled: list[int]
) -> None:
    await prepare(bench, handled, "partition")
    async with bench.at_work():
        await reaches(bench, 1, lag=4)
        await reads_on(bench)
        hidden.dead.add(2)
        await reaches(bench, 5, lag=0)
    assert handled == [1, 3, 4, 5]


@pytest.mark.parametrize(("order", "after"), [("key", 5), ("partition", 1)])
async def test_the_store_gets_back_what_it_found_out_about_a_hole(
    bench: Bench, hidden: Hidden, handled: list[int], order: Order, after: int
) -> None:
    await prepare(bench, handled, order)
    async with bench.at_work():
        await until(lambda: hidden.looks > 0)
        await reads_on(bench)
    cursor = last_cursor(bench)
    assert (cursor.after, cursor.holes, cursor.in_order) == (after, (Hole(2, 2, HOLDERS),), order == "partition")
    assert hidden.looks == 1


@pytest.mark.parametrize("order", ["key", "partition"])
async def test_who_takes_over_finds_the_hole_again_and_repeats_nothing(
    bench: Bench, hidden: Hidden, handled: list[int], order: Order
) -> None:
    await prepare(bench, handled, order)
    for _ in range(2):
        async with bench.at_work() as job:
            await reads_on(bench)
            await reaches(bench, 1, lag=1 if order == "key" else 4)
            assert await job.finish()
    hidden.offsets.clear()
    await bench.work_until_idle()
    assert sorted(handled) == [1, 2, 3, 4, 5]


async def test_who_works_until_idle_waits_for_holes(bench: Bench, hidden: Hidden, handled: list[int]) -> None:
    await prepare(bench, handled, "key")
    with anyio.fail_after(bench.limit_seconds):
        async with anyio.create_task_group() as group:
            group.start_soon(bench.work_until_idle)
            await reaches(bench, 1, lag=1)
            await reads_on(bench)
            hidden.offsets.clear()
    assert sorted(handled) == [1, 2, 3, 4, 5]

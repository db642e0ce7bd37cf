"""Reading is bounded over all partitions of a process, and passes over what is no record any more."""

import sqlite3
from contextlib import closing
from pathlib import Path

from partition import partition_of
from streams.worker.actor import ALL_WINDOWS_BYTES, WINDOW_BYTES
from tests.worker.bench import Bench, until
from tests.worker.setting import SQLITE, in_settings, in_virtual_time


@in_virtual_time
async def test_all_partitions_together_read_no_more_bytes_than_a_process_may_hold(bench: Bench) -> None:
    orders = bench.app.topic("orders", int, partitions=64)

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        pass

    async with bench.at_work():
        await bench.shared(64)
        await until(lambda: any(len(cursors) == 64 for (cursors,) in bench.faults.calls["fetch"]))
    for (cursors,) in bench.faults.calls["fetch"]:
        assert sum(cursor.limit_bytes for cursor in cursors) <= ALL_WINDOWS_BYTES


@in_settings(SQLITE)
async def test_the_position_moves_over_records_that_are_gone_from_the_end_of_the_log(
    bench: Bench, tmp_path: Path
) -> None:
    orders = bench.app.topic("orders", int, partitions=1)
    handled: list[int] = []

    @orders.subscribe(group="billing")
    async def handle(number: int) -> None:
        handled.append(number)

    async def is_settled() -> bool:
        return (await bench.partition("billing")).position == 3

    await orders.publish_many(("key", n) for n in range(3))
    with closing(sqlite3.connect(tmp_path / "streams.db")) as connection, connection:
        connection.execute("DELETE FROM streams_records")
    async with bench.at_work():
        await bench.shared(1)
        await until(is_settled)
    assert handled == []
    assert (await bench.partition("billing")).lag == 0


@in_virtual_time
async def test_a_busy_partition_among_many_gets_what_the_others_do_not_need(bench: Bench) -> None:
    orders = bench.app.topic("orders", bytes, partitions=1_024)
    handled = 0

    @orders.subscribe(group="billing")
    async def handle(payload: bytes) -> None:
        nonlocal handled
        handled += 1

    await orders.publish_many(("key", bytes(32_000)) for _ in range(200))
    async with bench.at_work():
        await until(lambda: handled == 200)
    reads = [cursors for (cursors,) in bench.faults.calls["fetch"]]
    busy = partition_of("key", 1_024)
    assert (
        max(cursor.limit_bytes for cursors in reads for cursor in cursors if cursor.partition == busy) == WINDOW_BYTES
    )
    for cursors in reads:
        assert sum(cursor.limit_bytes for cursor in cursors) <= ALL_WINDOWS_BYTES

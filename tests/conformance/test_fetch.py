"""Reading answers every cursor from one snapshot: lowest first, bounded, and with nothing left out below `through`."""

from itertools import product

import anyio
import pytest

from streams.stores.protocol import Store
from streams.stores.rows import RECORD_OVERHEAD, Fetched, TopicRow
from tests.conformance.samples import cursor, offsets, publication, publications, read


async def test_records_above_the_cursor_come_lowest_first(store: Store, orders: TopicRow) -> None:
    await store.append(publications(orders, 5))
    fetched = await read(store, orders, after=2)
    assert [(record.offset, record.payload) for record in fetched.records] == [(3, b"3"), (4, b"4"), (5, b"5")]
    assert fetched.through == 5


@pytest.mark.parametrize("after", [0, 3])
async def test_nothing_new_leaves_the_reader_where_it_is(store: Store, orders: TopicRow, after: int) -> None:
    await store.append(publications(orders, after))
    assert await read(store, orders, after=after) == Fetched([], after)


async def test_a_cursor_past_the_end_stays_there(store: Store, orders: TopicRow) -> None:
    await store.append(publications(orders, 3))
    assert await read(store, orders, after=7) == Fetched([], 7)


async def test_no_more_records_come_than_asked_for(store: Store, orders: TopicRow) -> None:
    await store.append(publications(orders, 5))
    fetched = await read(store, orders, after=1, limit_records=2)
    assert (offsets(fetched), fetched.through) == ([2, 3], 3)


async def test_a_limit_that_is_just_enough_reads_to_the_end(store: Store, orders: TopicRow) -> None:
    await store.append(publications(orders, 5))
    fetched = await read(store, orders, limit_records=5)
    assert (offsets(fetched), fetched.through) == ([1, 2, 3, 4, 5], 5)


async def test_without_room_nothing_comes_and_the_reader_stays(store: Store, orders: TopicRow) -> None:
    await store.append(publications(orders, 5))
    assert await read(store, orders, after=1, limit_records=0) == Fetched([], 1)
    assert await read(store, orders, after=1, limit_records=0, skip=((2, 5),)) == Fetched([], 1)


async def test_no_more_bytes_come_than_asked_for(store: Store, orders: TopicRow) -> None:
    await store.append([publication(orders, payload=b"x" * 100) for _ in range(5)])
    size = 100 + RECORD_OVERHEAD
    for limit_bytes, count in [(3 * size, 3), (3 * size - 1, 2), (4 * size - 1, 3), (5 * size, 5)]:
        fetched = await read(store, orders, limit_bytes=limit_bytes)
        assert (offsets(fetched), fetched.through) == (list(range(1, count + 1)), count)


@pytest.mark.parametrize("limit_bytes", [0, 1, RECORD_OVERHEAD + 999])
async def test_one_record_comes_whatever_its_size(store: Store, orders: TopicRow, limit_bytes: int) -> None:
    await store.append([publication(orders, payload=b"x" * 1000), publication(orders)])
    fetched = await read(store, orders, limit_bytes=limit_bytes)
    assert (offsets(fetched), fetched.through) == ([1], 1)


async def test_an_oversized_record_waits_until_it_is_the_first(store: Store, orders: TopicRow) -> None:
    await store.append([publication(orders), publication(orders, payload=b"x" * 1000), publication(orders)])
    first = await read(store, orders, limit_bytes=1000)
    assert (offsets(first), first.through) == ([1], 1)
    second = await read(store, orders, after=1, limit_bytes=1000)
    assert (offsets(second), second.through) == ([2], 2)


@pytest.mark.parametrize(
    ("skip", "left"),
    [
        (((4, 6),), [3, 7, 8, 9, 10]),
        (((3, 3), (5, 5), (9, 10)), [4, 6, 7, 8]),
        (((3, 4), (5, 6)), [7, 8, 9, 10]),
        (((3, 10),), []),
        (((3, 99),), []),
        (((11, 99),), [3, 4, 5, 6, 7, 8, 9, 10]),
        (((50, 60), (70, 80)), [3, 4, 5, 6, 7, 8, 9, 10]),
        (((1, 1), (2, 2)), [3, 4, 5, 6, 7, 8, 9, 10]),
        (((1, 2), (4, 10)), [3]),
        (((1, 5),), [6, 7, 8, 9, 10]),
        (((3, 8), (5, 6)), [9, 10]),
        (((3, 1 << 40),), []),
    ],
)
async def test_ranges_are_left_out(
    store: Store, orders: TopicRow, skip: tuple[tuple[int, int], ...], left: list[int]
) -> None:
    await store.append(publications(orders, 10))
    fetched = await read(store, orders, after=2, skip=skip)
    assert (offsets(fetched), fetched.through) == (left, 10)


async def test_what_is_left_out_takes_no_room(store: Store, orders: TopicRow) -> None:
    await store.append(publications(orders, 10))
    fetched = await read(store, orders, skip=((1, 4), (6, 8)), limit_records=2)
    assert (offsets(fetched), fetched.through) == ([5, 9], 9)
    whole = await read(store, orders, skip=((1, 4), (6, 8), (10, 10)), limit_records=2)
    assert (offsets(whole), whole.through) == ([5, 9], 10)


@pytest.mark.parametrize("skip", [(), ((2, 3), (5, 5), (11, 14)), ((1, 1), (20, 40)), ((1, 20),)])
async def test_reading_on_from_through_meets_every_record_once(
    store: Store, orders: TopicRow, skip: tuple[tuple[int, int], ...]
) -> None:
    sizes = [number * 37 % 90 for number in range(20)]
    await store.append([publication(orders, payload=b"x" * size) for size in sizes])
    wanted = [n for n in range(1, 21) if not any(low <= n <= high for low, high in skip)]
    for limit_records, limit_bytes in product([1, 2, 7], [1, 2 * RECORD_OVERHEAD + 60, 1 << 20]):
        found: list[int] = []
        after = 0
        while after < 20:
            fetched = await read(
                store, orders, after=after, limit_records=limit_records, limit_bytes=limit_bytes, skip=skip
            )
            found += offsets(fetched)
            assert fetched.through > after
            after = fetched.through
        assert (found, after) == (wanted, 20)


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_where_no_transaction_is_open_there_are_no_holes(store: Store, orders: TopicRow, after: int) -> None:
    await store.append(publications(orders, 3))
    ordinary = cursor(orders, after=after)
    assert await store.fetch([ordinary]) == await store.fetch([ordinary._replace(in_order=True)])
    (fetched,) = await store.fetch([ordinary])
    assert (offsets(fetched), fetched.through, fetched.holes) == (list(range(after + 1, 4)), 3, ())


async def test_many_cursors_are_answered_in_their_order(store: Store, orders: TopicRow) -> None:
    clicks = await store.ensure_topic("clicks", 2, "json")
    await store.append(publications(orders, 3) + publications(orders, 2, partition=3) + publications(clicks, 1))
    answers = await store.fetch(
        [
            cursor(clicks, 1),
            cursor(orders, 3, 1),
            cursor(orders, 0, limit_records=1),
            cursor(clicks, 0),
            cursor(orders, 0, 1),
            cursor(orders, 2),
        ]
    )
    assert [(offsets(answer), answer.through) for answer in answers] == [
        ([], 0),
        ([2], 2),
        ([1], 1),
        ([1], 1),
        ([2, 3], 3),
        ([], 0),
    ]


async def test_no_cursors_have_no_answers(store: Store) -> None:
    assert await store.fetch([]) == []


async def test_all_cursors_are_answered_from_one_snapshot(store: Store, other: Store, orders: TopicRow) -> None:
    cursors = [cursor(orders, partition) for partition in range(4)]
    done = False

    async def write() -> None:
        nonlocal done
        for _ in range(20):
            await other.append([publication(orders, partition) for partition in range(4)])
        done = True

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        while not done:
            answers = await store.fetch(cursors)
            assert len({answer.through for answer in answers}) == 1
            assert len({len(answer.records) for answer in answers}) == 1
            await anyio.lowlevel.checkpoint()

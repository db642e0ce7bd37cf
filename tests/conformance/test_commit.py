"""A settlement is fenced, happens once and whole, and carries all its effects with it."""

from typing import Any

import anyio
import msgspec
import pytest

from partition import Lease
from streams.errors import StreamsError, UnknownTopic
from streams.stores.protocol import Store
from streams.stores.rows import Held, Publication, Settlement, Statement, TopicRow, Verdict
from tests.conformance.clock import Clock
from tests.conformance.samples import (
    APPLIED,
    BILLING,
    ORDERS,
    PAIR,
    REFUSED,
    letter,
    member,
    parked,
    payloads_of,
    publication,
    records_of,
    settlement,
    status_of,
    take,
    take_again,
)


@pytest.fixture
async def invoices(store: Store) -> TopicRow:
    """A topic that settlements publish to."""
    return await store.ensure_topic("invoices", 2, "json")


def everything(lease: Lease, invoices: TopicRow, number: int = 1, position: int = 1) -> Settlement:
    """A settlement with one of each effect."""
    return settlement(
        lease,
        number,
        position,
        publish=(publication(invoices, payload=b"invoice"),),
        dead=(letter(lease, position),),
        park=(parked(position + 1),),
    )


async def effects(store: Store, invoices: TopicRow, partition: int = 0) -> tuple[int, int, int, int]:
    """The position, and how many records were published, are dead and are parked."""
    status = await status_of(store, partition)
    published = len(await records_of(store, invoices))
    return status.position, published, len(await store.dead()), status.parked


async def test_the_holder_of_a_lease_commits(store: Store, held: Held) -> None:
    assert await store.commit([settlement(held.lease, 1, 5)]) == [APPLIED]
    assert (await status_of(store)).position == 5


async def test_committing_nothing_answers_nothing(store: Store) -> None:
    assert await store.commit([]) == []


async def test_several_partitions_commit_at_once(store: Store, held: Held) -> None:
    second = await take(store, "ann", 3)
    await take(store, "bob", 1)
    assert await store.commit([settlement(second.lease, 1, 7), settlement(held.lease, 1, 5)]) == [
        APPLIED,
        APPLIED,
    ]
    (status,) = await store.groups()
    assert [partition.position for partition in status.partitions] == [5, 0, 0, 7]


async def test_a_commit_is_seen_by_another_handle(store: Store, other: Store, held: Held, invoices: TopicRow) -> None:
    await store.commit([everything(held.lease, invoices)])
    assert await effects(other, invoices) == (1, 1, 1, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        Lease(BILLING, ORDERS, 0, "bob", 1),
        Lease(BILLING, ORDERS, 0, "ann", 0),
        Lease(BILLING, ORDERS, 0, "ann", 2),
        Lease(BILLING, ORDERS, 1, "ann", 0),
        Lease(BILLING, ORDERS, 1, "ann", 1),
        Lease(BILLING, ORDERS, 4, "ann", 1),
        Lease("audit", ORDERS, 0, "ann", 1),
        Lease(BILLING, "clicks", 0, "ann", 1),
    ],
    ids=lambda lease: f"{lease.group}-{lease.topic}-{lease.partition}-{lease.member}-{lease.epoch}",
)
async def test_without_the_lease_nothing_happens(store: Store, held: Held, invoices: TopicRow, wrong: Lease) -> None:
    before = await store.groups()
    assert await store.commit([everything(wrong, invoices)]) == [REFUSED]
    assert await store.groups() == before
    assert await effects(store, invoices) == (0, 0, 0, 0)


async def test_a_released_lease_commits_nothing(store: Store, held: Held, invoices: TopicRow) -> None:
    await store.release([held.lease])
    assert await store.commit([everything(held.lease, invoices)]) == [REFUSED]
    assert await effects(store, invoices) == (0, 0, 0, 0)


async def test_a_stale_epoch_of_the_same_member_commits_nothing(store: Store, held: Held, invoices: TopicRow) -> None:
    again = await take_again(store, held)
    assert await store.commit([everything(held.lease, invoices)]) == [REFUSED]
    assert await effects(store, invoices) == (0, 0, 0, 0)
    assert await store.commit([everything(again.lease, invoices)]) == [APPLIED]


async def test_a_lease_that_was_taken_over_commits_nothing(
    store: Store, other: Store, held: Held, invoices: TopicRow
) -> None:
    await other.register(member("cid"), replaces="ann")
    taken = await take(other, "cid")
    assert await store.commit([everything(held.lease, invoices)]) == [REFUSED]
    assert await effects(store, invoices) == (0, 0, 0, 0)
    assert await other.commit([settlement(taken.lease, 1, 2)]) == [APPLIED]


async def test_a_member_that_left_commits_nothing(store: Store, held: Held, invoices: TopicRow) -> None:
    await store.leave("ann")
    assert await store.commit([everything(held.lease, invoices)]) == [REFUSED]
    assert await effects(store, invoices) == (0, 0, 0, 0)


async def test_a_refused_settlement_leaves_the_others_applied(store: Store, held: Held, invoices: TopicRow) -> None:
    lost = await take(store, "ann", 1)
    await store.release([lost.lease])
    third = await take(store, "ann", 2)
    answers = await store.commit(
        [everything(held.lease, invoices), everything(lost.lease, invoices), everything(third.lease, invoices)]
    )
    assert answers == [APPLIED, REFUSED, APPLIED]
    assert await effects(store, invoices, 0) == (1, 2, 2, 1)
    assert await effects(store, invoices, 1) == (0, 2, 2, 0)
    assert await effects(store, invoices, 2) == (1, 2, 2, 1)


async def test_the_same_settlement_again_is_in_already(store: Store, held: Held, invoices: TopicRow) -> None:
    once = everything(held.lease, invoices)
    assert await store.commit([once]) == [APPLIED]
    before = await store.groups(), await store.dead()
    assert await store.commit([once]) == [APPLIED]
    assert await store.commit([once, once]) == [APPLIED, APPLIED]
    assert await effects(store, invoices) == (1, 1, 1, 1)
    assert (await store.groups(), await store.dead()) == before


async def test_a_settlement_twice_in_one_call_happens_once(store: Store, held: Held, invoices: TopicRow) -> None:
    once = everything(held.lease, invoices)
    assert await store.commit([once, once]) == [APPLIED, APPLIED]
    assert await effects(store, invoices) == (1, 1, 1, 1)


@pytest.mark.parametrize("whole", [False, True])
async def test_a_settlement_before_one_that_is_in_is_in_too(
    store: Store, held: Held, invoices: TopicRow, whole: bool
) -> None:
    first = everything(held.lease, invoices)
    await store.commit([first])
    await store.commit([settlement(held.lease, 2, 3, unpark=(2,), whole=whole)])
    assert await store.commit([first]) == [APPLIED]
    assert await effects(store, invoices) == (3, 1, 1, 0)


async def test_an_unpark_that_is_tried_again_leaves_what_was_parked_since(store: Store, held: Held) -> None:
    await store.commit([settlement(held.lease, 1, 1, park=(parked(2),))])
    unpark = settlement(held.lease, 2, 1, unpark=(2,))
    await store.commit([unpark])
    await store.commit([settlement(held.lease, 3, 1, park=(parked(2),))])
    assert await store.commit([unpark]) == [APPLIED]
    assert (await status_of(store)).parked == 1


async def test_numbers_start_again_with_every_epoch(store: Store, held: Held, invoices: TopicRow) -> None:
    for number in (1, 2, 3):
        await store.commit([everything(held.lease, invoices, number, number)])
    again = await take_again(store, held)
    assert await store.commit([everything(again.lease, invoices, 1, 4)]) == [APPLIED]
    assert await effects(store, invoices) == (4, 4, 4, 4)


async def test_numbers_are_the_partitions_own(store: Store, held: Held, invoices: TopicRow) -> None:
    second = await take(store, "ann", 1)
    await store.commit([everything(held.lease, invoices, 1)])
    assert await store.commit([everything(second.lease, invoices, 1)]) == [APPLIED]
    assert await effects(store, invoices, 1) == (1, 2, 2, 1)


async def test_what_a_settlement_publishes_is_in_the_log_in_its_order(
    store: Store, held: Held, orders: TopicRow, invoices: TopicRow, clock: Clock
) -> None:
    await store.append([publication(invoices, payload=b"before")])
    first = (publication(invoices, payload=b"a"), publication(orders, 3, b"b"), publication(invoices, payload=b"c"))
    second = (publication(invoices, payload=b"\0", key="🦑", headers=b"h"),)
    await store.commit([settlement(held.lease, 1, publish=first), settlement(held.lease, 2, publish=second)])
    assert await payloads_of(store, invoices) == [b"before", b"a", b"c", b"\0"]
    assert await payloads_of(store, orders, 3) == [b"b"]
    last = (await records_of(store, invoices))[-1]
    assert (last.offset, last.key, last.headers, last.published_at) == (4, "🦑", b"h", clock.now)
    assert await store.append([publication(invoices)]) == [5]


async def test_a_settlement_that_publishes_to_nowhere_undoes_the_whole_commit(
    store: Store, held: Held, invoices: TopicRow
) -> None:
    second = await take(store, "ann", 1)
    nowhere = Publication(invoices.id, 2, None, b"", None)
    bad = msgspec.structs.replace(everything(second.lease, invoices), publish=(publication(invoices), nowhere))
    with pytest.raises(UnknownTopic):
        await store.commit([everything(held.lease, invoices), bad])
    assert await effects(store, invoices, 0) == (0, 0, 0, 0)
    assert await effects(store, invoices, 1) == (0, 0, 0, 0)
    assert await store.commit([everything(held.lease, invoices)]) == [APPLIED]


async def test_what_a_refused_settlement_would_publish_does_not_matter(
    store: Store, held: Held, invoices: TopicRow
) -> None:
    nowhere = (Publication(invoices.id, 2, None, b"", None),)
    await store.commit([settlement(held.lease, 1, 1)])
    lost = Lease(BILLING, ORDERS, 0, "ann", 7)
    refused, in_already = settlement(lost, 2, 2, publish=nowhere), settlement(held.lease, 1, 1, publish=nowhere)
    assert await store.commit([refused, in_already, settlement(held.lease, 2, 3)]) == [
        REFUSED,
        APPLIED,
        APPLIED,
    ]
    assert (await status_of(store)).position == 3


async def test_two_letters_of_a_record_in_one_settlement_are_one(store: Store, held: Held) -> None:
    letters = letter(held.lease, 1, attempts=1), letter(held.lease, 2), letter(held.lease, 1, attempts=2)
    assert await store.commit([settlement(held.lease, 1, 2, dead=letters)]) == [APPLIED]
    assert [(one.offset, one.attempts) for one in await store.dead()] == [(2, 3), (1, 2)]


async def test_a_dead_letter_copies_its_record_whole(store: Store, held: Held, clock: Clock) -> None:
    hostile: dict[str, Any] = {
        "key": None,
        "payload": b"\0\xff" * 1000,
        "headers": None,
        "error": "ValueError: 'naïve' 🦑",
        "traceback": "Traceback\n" + "x" * 100_000,
        "cause": "undecodable",
        "published_at": clock.now - 77,
    }
    given = letter(held.lease, 3, **hostile)
    clock.advance(60)
    await store.commit([settlement(held.lease, dead=(given,))])
    assert await store.dead() == [msgspec.structs.replace(given, died_at=clock.now)]


async def test_dead_letters_are_listed_oldest_first(store: Store, held: Held, clock: Clock) -> None:
    second = await take(store, "ann", 1)
    dying = [(held.lease, 1, 9), (second.lease, 1, 2), (held.lease, 2, 3)]
    for lease, number, offset in dying:
        clock.advance(1)
        await store.commit([settlement(lease, number, dead=(letter(lease, offset), letter(lease, offset + 1)))])
    found = [(row.partition, row.offset) for row in await store.dead()]
    assert found == [(0, 9), (0, 10), (1, 2), (1, 3), (0, 3), (0, 4)]


async def test_a_record_that_dies_again_has_one_letter_the_newest(store: Store, held: Held, clock: Clock) -> None:
    await store.commit([settlement(held.lease, 1, dead=(letter(held.lease, 1, attempts=1), letter(held.lease, 2)))])
    clock.advance(60)
    await store.commit([settlement(held.lease, 2, dead=(letter(held.lease, 1, attempts=2),))])
    assert [(row.offset, row.attempts) for row in await store.dead()] == [(2, 3), (1, 2)]


async def test_the_same_offset_dies_for_each_group_and_partition(store: Store, held: Held) -> None:
    await store.ensure_group("audit", ORDERS, "earliest")
    second = await take(store, "ann", 1)
    (third,) = await store.acquire("ann", [("audit", ORDERS, 0)])
    leases = [held.lease, second.lease, third.lease]
    await store.commit([settlement(lease, dead=(letter(lease, 1),)) for lease in leases])
    assert [(row.group, row.partition) for row in await store.dead()] == [(BILLING, 0), (BILLING, 1), ("audit", 0)]


async def test_parked_rows_come_and_go_with_settlements(store: Store, held: Held) -> None:
    steps: list[tuple[dict[str, Any], int]] = [
        ({"park": (parked(2), parked(5, key=None), parked(9, key="é"))}, 3),
        ({"unpark": (5,)}, 2),
        ({"unpark": (5, 77)}, 2),
        ({"park": (parked(2, attempts=2),)}, 2),
        ({"unpark": (2, 9), "park": (parked(9, attempts=2),)}, 1),
        ({"unpark": (9,)}, 0),
    ]
    for number, (change, count) in enumerate(steps, start=1):
        assert await store.commit([settlement(held.lease, number, **change)]) == [APPLIED]
        assert (await status_of(store)).parked == count


async def test_parked_rows_are_the_groups_and_partitions_own(store: Store, held: Held) -> None:
    await store.ensure_group("audit", ORDERS, "earliest")
    second = await take(store, "ann", 1)
    (third,) = await store.acquire("ann", [("audit", ORDERS, 0)])
    leases = [held.lease, second.lease, third.lease]
    await store.commit([settlement(lease, park=(parked(2),)) for lease in leases])
    await store.commit([settlement(held.lease, 2, unpark=(2,))])
    assert [await parked_of(store, PAIR, partition) for partition in (0, 1)] == [0, 1]
    assert await parked_of(store, ("audit", ORDERS), 0) == 1


async def parked_of(store: Store, pair: tuple[str, str], partition: int) -> int:
    return (await status_of(store, partition, pair)).parked


async def test_statements_are_executed_or_refused_with_nothing_done(
    store: Store, held: Held, invoices: TopicRow, executes_sql: bool
) -> None:
    second = await take(store, "ann", 1)
    with_sql = msgspec.structs.replace(everything(second.lease, invoices), statements=(Statement("SELECT 1", ()),))
    both = [everything(held.lease, invoices), with_sql]
    if executes_sql:
        assert await store.commit(both) == [APPLIED, APPLIED]
        return
    with pytest.raises(StreamsError, match="cannot execute SQL"):
        await store.commit(both)
    assert await effects(store, invoices, 0) == (0, 0, 0, 0)
    assert await effects(store, invoices, 1) == (0, 0, 0, 0)


async def test_a_cancelled_commit_is_whole_or_absent(store: Store, held: Held, invoices: TopicRow) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.commit([everything(held.lease, invoices)])
    assert await effects(store, invoices) in [(0, 0, 0, 0), (1, 1, 1, 1)]


async def test_a_reader_sees_a_commit_whole_or_not_at_all(
    store: Store, other: Store, held: Held, orders: TopicRow
) -> None:
    leases = [held.lease, *[(await take(store, "ann", partition)).lease for partition in (1, 2, 3)]]
    done = False

    async def write() -> None:
        nonlocal done
        for number in range(1, 21):
            await other.commit([settlement(lease, number, number, park=(parked(number),)) for lease in leases])
        done = True

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        while not done:
            (status,) = await store.groups()
            assert len({(partition.position, partition.parked) for partition in status.partitions}) == 1
            await anyio.lowlevel.checkpoint()


async def test_a_takeover_and_a_commit_at_once_agree_on_what_was_settled(
    store: Store, other: Store, held: Held
) -> None:
    answers: list[Verdict] = []

    async def commit() -> None:
        for number in range(1, 31):
            answers.extend(await store.commit([settlement(held.lease, number, number)]))

    async with anyio.create_task_group() as group:
        group.start_soon(commit)
        while len(answers) < 5:
            await anyio.lowlevel.checkpoint()
        await other.register(member("cid"), replaces="ann")
        taken = await take(other, "cid")
    applied = answers.count(APPLIED)
    assert answers == [APPLIED] * applied + [REFUSED] * (30 - applied)
    assert taken.position == applied

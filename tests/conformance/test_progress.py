"""What was settled, in however many pieces, is what the next owner is told."""

from random import Random

import pytest

from partition import Progress, Range, union
from streams.stores.protocol import Store
from streams.stores.rows import Held, Settlement, TopicRow
from tests.conformance.samples import APPLIED, publications, settlement, status_of, take, take_again


async def told(store: Store, held: Held) -> tuple[int, tuple[Range, ...]]:
    again = await take_again(store, held)
    return again.position, again.settled


async def test_a_new_owner_of_a_new_group_starts_at_nothing(store: Store, held: Held) -> None:
    assert (held.position, held.settled) == (0, ())


async def test_ranges_are_added_up(store: Store, held: Held) -> None:
    await store.commit([settlement(held.lease, 1, 1, (9, 9))])
    await store.commit([settlement(held.lease, 2, 1, (3, 4))])
    await store.commit([settlement(held.lease, 3, 1, (6, 6), (11, 12))])
    assert await told(store, held) == (1, ((3, 4), (6, 6), (9, 9), (11, 12)))


async def test_neighbours_are_joined(store: Store, held: Held) -> None:
    await store.commit([settlement(held.lease, 1, 0, (5, 5))])
    await store.commit([settlement(held.lease, 2, 0, (3, 4), (6, 7))])
    assert await told(store, held) == (0, ((3, 7),))


async def test_the_position_cuts_what_it_has_passed(store: Store, held: Held) -> None:
    await store.commit([settlement(held.lease, 1, 0, (2, 6), (8, 9))])
    await store.commit([settlement(held.lease, 2, 3)])
    assert await told(store, held) == (3, ((4, 6), (8, 9)))


async def test_a_position_alone_leaves_the_ranges_above_it(store: Store, held: Held) -> None:
    await store.commit([settlement(held.lease, 1, 0, (3, 3), (7, 7))])
    await store.commit([settlement(held.lease, 2, 5)])
    assert await told(store, held) == (5, ((7, 7),))


async def test_a_whole_progress_replaces_what_was_said_before(store: Store, held: Held) -> None:
    await store.commit([settlement(held.lease, 1, 0, (3, 3), (7, 7))])
    await store.commit([settlement(held.lease, 2, 2, (5, 6), whole=True)])
    assert await told(store, held) == (2, ((5, 6),))


async def test_ranges_are_added_to_the_last_whole_progress(store: Store, held: Held) -> None:
    await store.commit([settlement(held.lease, 1, 0, (99, 99))])
    await store.commit([settlement(held.lease, 2, 0, (3, 3), whole=True)])
    await store.commit([settlement(held.lease, 3, 0, (5, 5))])
    await store.commit([settlement(held.lease, 4, 1, (7, 7))])
    assert await told(store, held) == (1, ((3, 3), (5, 5), (7, 7)))


async def test_a_new_epoch_adds_to_what_the_old_one_settled(store: Store, held: Held) -> None:
    await store.commit([settlement(held.lease, 1, 2, (4, 4))])
    await store.commit([settlement(held.lease, 2, 2, (6, 6))])
    again = await take_again(store, held)
    await store.commit([settlement(again.lease, 1, 2, (8, 8))])
    assert await told(store, again) == (2, ((4, 4), (6, 6), (8, 8)))


async def test_a_whole_progress_of_a_new_epoch_replaces_the_old_ones(store: Store, held: Held) -> None:
    for number in (1, 2, 3):
        await store.commit([settlement(held.lease, number, 0, (number * 2, number * 2))])
    again = await take_again(store, held)
    await store.commit([settlement(again.lease, 1, 1, (9, 9), whole=True)])
    assert await told(store, again) == (1, ((9, 9),))


async def test_a_group_that_started_at_the_end_moves_on_from_there(store: Store, orders: TopicRow, held: Held) -> None:
    await store.append(publications(orders, 10))
    await store.ensure_group("audit", orders.name, "latest")
    (audit,) = await store.acquire("ann", [("audit", orders.name, 0)])
    await store.commit([settlement(audit.lease, 1, 10, (12, 12))])
    await store.release([audit.lease])
    (again,) = await store.acquire("bob", [("audit", orders.name, 0)])
    assert (again.position, again.settled) == (10, ((12, 12),))


async def test_a_settlement_without_news_moves_nothing(store: Store, held: Held) -> None:
    await store.commit([settlement(held.lease, 1, 3, (5, 5))])
    await store.commit([settlement(held.lease, 2, 3)])
    assert await told(store, held) == (3, ((5, 5),))


class Settler:
    """Settles offsets in any order, and says so as an owner does: each time what is new, now and then the whole."""

    def __init__(self, held: Held, *, whole_every: int) -> None:
        self.held = held
        self.settled = {offset for low, high in held.settled for offset in range(low, high + 1)}
        self.position = held.position
        self.number = 0
        self._whole_every = whole_every

    def settle(self, offsets: set[int]) -> Settlement:
        self.settled |= offsets
        while self.position + 1 in self.settled:
            self.position += 1
        self.number += 1
        whole = self.number % self._whole_every == 0
        said = union([Range(offset, offset) for offset in (self.settled if whole else offsets)], self.position)
        return Settlement(self.held.lease, Progress(self.number, self.position, said, whole, len(offsets)))

    @property
    def state(self) -> tuple[int, tuple[Range, ...]]:
        return self.position, union([Range(offset, offset) for offset in self.settled], self.position)


@pytest.mark.parametrize("whole_every", [64, 7, 1000])
async def test_hundreds_of_settlements_add_up_over_handovers(
    store: Store, other: Store, held: Held, whole_every: int
) -> None:
    random = Random(whole_every)
    left = list(range(1, 601))
    settler = Settler(held, whole_every=whole_every)
    handover_at = {100, 170, 171, 240}
    for count in range(1, 301):
        # Not quite at random: what is low is settled soon, and some holes stay.
        chosen = {left.pop(min(random.randrange(40), len(left) - 1)) for _ in range(2)}
        assert await store.commit([settler.settle(chosen)]) == [APPLIED]
        if count in handover_at:
            await store.release([settler.held.lease])
            taken = await take(other, random.choice(["ann", "bob"]))
            assert (taken.position, taken.settled) == settler.state
            settler = Settler(taken, whole_every=whole_every)
    assert settler.state == (600, ())
    assert await told(store, settler.held) == (600, ())


async def test_more_settlements_than_a_whole_one_covers_in_one_commit(store: Store, held: Held) -> None:
    many = [settlement(held.lease, number, 0, (number * 2, number * 2)) for number in range(1, 201)]
    assert await store.commit(many) == [APPLIED] * 200
    position, settled = await told(store, held)
    assert (position, settled) == (0, tuple(Range(2 * number, 2 * number) for number in range(1, 201)))


async def test_a_large_position_comes_back(store: Store, held: Held) -> None:
    far = 1 << 60
    await store.commit([settlement(held.lease, 1, far, (far + 2, far + 9))])
    assert (await status_of(store)).position == far
    assert await told(store, held) == (far, ((far + 2, far + 9),))

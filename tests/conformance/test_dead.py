"""Dead letters are listed and removed by what is said of them."""

from typing import Any

import pytest

from streams.stores.protocol import Store
from streams.stores.rows import DeadFilter, DeadLetter, TopicRow
from tests.conformance.clock import MICROS, Clock
from tests.conformance.samples import letter, member, settlement

LETTERS: list[dict[str, Any]] = [
    {"key": "a", "error": "ValueError: 100 % of nothing"},
    {"key": "b", "error": "KeyError: 'total'"},
    {"key": None, "error": "ValueError: né_"},
    {"key": "", "error": ""},
]


@pytest.fixture
async def letters(store: Store, orders: TopicRow, clock: Clock) -> list[DeadLetter]:
    """Of two groups and two topics, a second apart, at the offsets 1 to 4 of a partition each."""
    await store.ensure_topic("clicks", 2, "json")
    await store.register(member("ann", lease_seconds=100))
    for group, topic, partition in ("billing", "orders", 0), ("audit", "orders", 1), ("billing", "clicks", 1):
        await store.ensure_group(group, topic, "earliest")
        (held,) = await store.acquire("ann", [(group, topic, partition)])
        for offset, words in enumerate(LETTERS, 1):
            clock.now += MICROS
            dead = letter(held.lease, offset, **words)
            await store.commit([settlement(held.lease, offset, offset, dead=(dead,))])
    found = await store.dead()
    assert len(found) == 12
    return found


FILTERS: list[tuple[dict[str, Any], int]] = [
    ({}, 12),
    ({"group": "billing"}, 8),
    ({"group": "nobody"}, 0),
    ({"topic": "orders"}, 8),
    ({"partition": 0}, 4),
    ({"offset": 2}, 3),
    ({"key": "a"}, 3),
    ({"key": ""}, 3),
    ({"error": "ValueError"}, 6),
    ({"error": "valueerror"}, 0),
    ({"error": "né_"}, 3),
    ({"error": "%"}, 3),
    ({"error": "_"}, 3),
    ({"error": ""}, 12),
    ({"group": "billing", "topic": "clicks", "key": "b"}, 1),
    ({"group": "audit", "topic": "clicks"}, 0),
]


@pytest.mark.parametrize(("words", "count"), FILTERS)
async def test_those_are_meant_to_which_all_applies(
    store: Store, letters: list[DeadLetter], words: dict[str, Any], count: int
) -> None:
    which = DeadFilter(**words)
    found = await store.dead(which)
    assert found == [one for one in letters if which.takes(one)]
    assert len(found) == count


@pytest.mark.parametrize(("words", "count"), FILTERS)
async def test_those_that_are_meant_are_removed_and_no_others(
    store: Store, other: Store, letters: list[DeadLetter], words: dict[str, Any], count: int
) -> None:
    which = DeadFilter(**words)
    assert await store.remove_dead(which) == count
    assert await other.dead() == [one for one in letters if not which.takes(one)]
    assert await store.remove_dead(which) == 0


@pytest.mark.parametrize("place", [0, 5, 11])
async def test_since_counts_from_the_death_on(store: Store, letters: list[DeadLetter], place: int) -> None:
    died = letters[place].died_at
    assert await store.dead(DeadFilter(since=died)) == letters[place:]
    assert await store.dead(DeadFilter(since=died + 1)) == letters[place + 1 :]
    assert await store.remove_dead(DeadFilter(since=died + 1)) == 11 - place
    assert await store.dead() == letters[: place + 1]


async def test_what_is_dead_and_removed_stays_settled(store: Store, letters: list[DeadLetter]) -> None:
    before = await store.groups(), await store.topics()
    await store.remove_dead(DeadFilter())
    assert (await store.groups(), await store.topics()) == before

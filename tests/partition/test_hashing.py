"""Keys keep the slots and partitions they were given, and slots and partitions are inverses."""

from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition.hashing import SLOTS, partition_of, slot_of, slots_of
from tests.partition.vectors import PARTITIONS_OF_KEYS, SLOTS_OF_KEYS

STEADY = settings(derandomize=True, deadline=None, max_examples=200)

keys = st.text(st.characters(exclude_categories=["Cs"]))
counts = st.integers(1, SLOTS)


@pytest.mark.parametrize(("key", "slot"), SLOTS_OF_KEYS)
def test_a_key_keeps_the_slot_it_was_given(key: str, slot: int) -> None:
    assert slot_of(key) == slot


@pytest.mark.parametrize(("key", "partitions", "partition"), PARTITIONS_OF_KEYS)
def test_a_key_keeps_the_partition_it_was_given(key: str, partitions: int, partition: int) -> None:
    assert partition_of(key, partitions) == partition


@STEADY
@given(keys)
def test_a_slot_is_the_first_four_bytes_of_the_hash_modulo_the_slots(key: str) -> None:
    assert slot_of(key) == int(sha256(key.encode("utf-8")).hexdigest()[:8], 16) % 4096


@STEADY
@given(keys, counts)
def test_a_key_is_in_a_partition_that_has_its_slot(key: str, partitions: int) -> None:
    partition = partition_of(key, partitions)
    assert 0 <= partition < partitions
    assert slot_of(key) in slots_of(partition, partitions)


@STEADY
@given(counts)
def test_the_slots_of_all_partitions_are_every_slot_in_order(partitions: int) -> None:
    ranges = [slots_of(partition, partitions) for partition in range(partitions)]
    assert [slot for slots in ranges for slot in slots] == list(range(SLOTS))
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1


@STEADY
@given(keys, st.integers(1, SLOTS // 2))
def test_splitting_every_partition_in_two_moves_no_key_elsewhere(key: str, partitions: int) -> None:
    assert partition_of(key, 2 * partitions) // 2 == partition_of(key, partitions)


def test_keys_spread_over_partitions_evenly() -> None:
    counts = [0] * 16
    for number in range(16_000):
        counts[partition_of(f"customer-{number}", 16)] += 1
    assert 850 < min(counts) <= max(counts) < 1150


@pytest.mark.parametrize("partitions", [-1, 0, SLOTS + 1])
def test_a_topic_has_at_least_one_partition_and_at_most_one_for_each_slot(partitions: int) -> None:
    with pytest.raises(ValueError, match=r"1 to 4,096 partitions"):
        partition_of("customer-7", partitions)
    with pytest.raises(ValueError, match=r"1 to 4,096 partitions"):
        slots_of(0, partitions)


@pytest.mark.parametrize("partition", [-1, 16])
def test_a_partition_that_the_topic_does_not_have_has_no_slots(partition: int) -> None:
    with pytest.raises(ValueError, match=f"no partition {partition} among 16"):
        slots_of(partition, 16)


def test_a_lone_surrogate_has_no_slot() -> None:
    with pytest.raises(UnicodeEncodeError):
        slot_of("\ud800")

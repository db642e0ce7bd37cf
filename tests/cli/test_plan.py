"""What the demo publishes."""

import pytest

from streams.cli.demo.plan import Plan


@pytest.mark.parametrize(("records", "keys"), [(2, 1), (100, 7), (100, 100), (1_000, 10)])
def test_every_number_has_a_key_and_every_key_a_number(records: int, keys: int) -> None:
    by_key = Plan(records, keys).by_key()
    assert len(by_key) == keys
    assert sorted(number for numbers in by_key.values() for number in numbers) == list(range(records))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_there_are_no_more_keys_than_records() -> None:
    assert len(Plan(3, 100).by_key()) == 3


def test_the_plan_is_the_same_every_time() -> None:
    assert list(Plan(50, 5).items(0, 50)) == list(Plan(50, 5).items(0, 50))


def test_some_keys_are_far_busier_than_others() -> None:
    counts = sorted(len(numbers) for numbers in Plan(10_000, 100).by_key().values())
    assert counts[-1] > 5 * counts[0]

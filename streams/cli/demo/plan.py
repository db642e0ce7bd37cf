"""What the demo publishes: numbers from 0 on, each under one of many keys, some keys far busier than others."""

import random
from collections import defaultdict
from collections.abc import Iterator

SEED = 7
TOPIC = "demo"
GROUP = "demo"


class Plan:
    """Which number goes under which key; the same every time."""

    def __init__(self, records: int, keys: int) -> None:
        self.records = records
        draw = random.Random(SEED)
        each = range(min(keys, records))  # so that no key stays empty
        busy = (int(keys * draw.random() ** 2) for _ in range(records - len(each)))
        self._keys = [*each, *busy]
        draw.shuffle(self._keys)

    def items(self, low: int, high: int) -> Iterator[tuple[str, int]]:
        """(key, number) for the numbers from `low` to below `high`."""
        for number in range(low, high):
            yield self.key(number), number

    def key(self, number: int) -> str:
        """The key of a number."""
        return f"key-{self._keys[number]}"

    def by_key(self) -> dict[str, list[int]]:
        """The numbers of each key, in the order in which they are published."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for number in range(len(self._keys)):
            numbers[self.key(number)].append(number)
        return dict(numbers)

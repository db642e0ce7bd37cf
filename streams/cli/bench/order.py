"""What the benchmark publishes: orders of about 150 bytes of JSON, under keys in turn."""

from collections.abc import Iterator

import msgspec

from partition import partition_of
from streams.stores.rows import Publication
from streams.stores.yardstick import BareRow

KEYS = 1_000
PARTITIONS = 16


class Order(msgspec.Struct):
    """A payload as many topics have it: numbers, short texts, an instant, a list."""

    id: int
    customer: str
    city: str
    total: float
    placed_at: str
    express: bool
    articles: list[int]


def order(number: int) -> Order:
    """The order of this number; always the same."""
    return Order(
        id=number,
        customer=f"customer-{number % KEYS}",
        city="Frankfurt am Main",
        total=number % 10_000 + 0.25,
        placed_at="2025-01-31T12:34:56Z",
        express=number % 3 == 0,
        articles=[number % 997, number % 991],
    )


def key(number: int) -> str:
    """The key of an order."""
    return f"customer-{number % KEYS}"


def items(low: int, high: int) -> Iterator[tuple[str, Order]]:
    """What `publish_many` takes: the orders from `low` to below `high`."""
    return ((key(number), order(number)) for number in range(low, high))


def publications(topic_id: int, low: int, high: int) -> Iterator[Publication]:
    """The same orders as a store takes them."""
    places = [partition_of(key(number), PARTITIONS) for number in range(KEYS)]
    encode = msgspec.json.Encoder().encode
    for number in range(low, high):
        yield Publication(topic_id, places[number % KEYS], key(number), encode(order(number)), None)


def rows(low: int, high: int) -> list[BareRow]:
    """The same orders as rows of a table; the offsets are right for a table that is filled from 0 on."""
    return [
        (1, one.partition, number + 1, one.key, one.payload, None, 0)
        for number, one in enumerate(publications(1, low, high), start=low)
    ]


def key_of(partition: int, partitions: int) -> str:
    """A key that lives in a partition."""
    number = 0
    while partition_of(f"key-{number}", partitions) != partition:
        number += 1
    return f"key-{number}"

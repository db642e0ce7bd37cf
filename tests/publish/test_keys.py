"""A key is text of at most 1,024 bytes, whatever it was given as, and what it cannot be is refused with a sentence."""

import enum
from typing import Any
from uuid import UUID

import pytest

from streams import InvalidKey, Streams
from streams.record import encode_key

ID = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")


class Text(str):
    def __str__(self) -> str:
        return "something else"


class Number(int):
    def __repr__(self) -> str:
        return "something else"


class Id(UUID):
    def __str__(self) -> str:
        return "something else"


class Colour(str, enum.Enum):  # noqa: UP042 - its str() is not its value
    RED = "red"


class Size(enum.StrEnum):
    LARGE = "large"


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("customer-7", "customer-7"),
        ("", ""),
        ("ключ 🔑", "ключ 🔑"),
        (7, "7"),
        (-7, "-7"),
        (0, "0"),
        (2**70, "1180591620717411303424"),
        (ID, "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        (Text("a"), "a"),
        (Number(7), "7"),
        (Id(str(ID)), str(ID)),
        (Colour.RED, "red"),
        (Size.LARGE, "large"),
        (Level.HIGH, "3"),
    ],
)
def test_a_key_is_stored_as_the_text_of_its_value(key: Any, text: str) -> None:
    encoded = encode_key(key)
    assert encoded == text
    assert type(encoded) is str


def test_no_key_is_not_the_empty_key() -> None:
    assert encode_key(None) is None


async def test_a_number_and_its_digits_are_one_key() -> None:
    topic = Streams("memory://").topic("orders", int, partitions=4096)
    assert topic.prepare(7, 1, None) == topic.prepare("7", 1, None)
    assert topic.prepare(ID, 1, None) == topic.prepare(str(ID), 1, None)


def test_records_without_a_key_spread_over_the_partitions() -> None:
    topic = Streams("memory://").topic("orders", int, partitions=4)
    assert {topic.prepare(None, 1, None).partition for _ in range(200)} == {0, 1, 2, 3}


LONGEST: dict[str, str | int] = {
    "ascii": "a" * 1024,
    "two bytes each": "é" * 512,
    "four bytes each": "🔑" * 256,
    "digits": 10**1023,
    "digits and a sign": -(10**1022),
}

TOO_LONG: dict[str, str | int] = {
    "ascii": "a" * 1025,
    "two bytes each": "é" * 513,
    "four bytes each": "🔑" * 257,
    "digits": 10**1024,
    "digits and a sign": -(10**1023),
    "more digits than Python prints": 1 << 100_000,
}


@pytest.mark.parametrize("case", LONGEST)
def test_a_key_may_have_1024_bytes_of_utf8(case: str) -> None:
    assert encode_key(LONGEST[case]) == str(LONGEST[case])


@pytest.mark.parametrize("case", TOO_LONG)
def test_a_longer_key_is_refused(case: str) -> None:
    with pytest.raises(InvalidKey, match=r"at most 1,024 bytes of UTF-8"):
        encode_key(TOO_LONG[case])


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (True, "may not be a bool"),
        (False, "may not be a bool"),
        ("a\0b", "NUL"),
        ("\0", "NUL"),
        ("\ud800", "lone surrogate"),
        ("a\udfffb", "lone surrogate"),
        (1.0, "not float"),
        (b"a", "not bytes"),
        ((1, 2), "not tuple"),
        ([], "not list"),
        (object(), "not object"),
    ],
)
def test_what_cannot_be_a_key_is_refused_with_the_reason(key: Any, sentence: str) -> None:
    with pytest.raises(InvalidKey, match=sentence):
        encode_key(key)


def test_a_refused_key_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="bool"):
        encode_key(True)

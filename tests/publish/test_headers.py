"""Headers are a small dict of str to str; what they cannot be is refused before anything is written."""

import enum
from collections import ChainMap
from types import MappingProxyType
from typing import Any

import pytest

from streams import InvalidHeaders
from streams.record import decode_headers, encode_headers


class Text(str):
    pass


class Name(enum.StrEnum):
    TRACE = "trace"


@pytest.mark.parametrize(
    "headers",
    [
        {"trace": "abc"},
        {"a": "", "b": "\0", "ключ": "🔑\n"},
        {f"name-{number}": "value" for number in range(64)},
        {"stream": "1", "x-streams-": "2"},
        MappingProxyType({"a": "b"}),
        ChainMap({"a": "b"}, {"c": "d"}),
        {Text("a"): Text("b")},
        {Name.TRACE: Name.TRACE},
    ],
)
def test_headers_come_back_as_they_were(headers: Any) -> None:
    assert decode_headers(encode_headers(headers)) == dict(headers)


@pytest.mark.parametrize("headers", [None, {}, MappingProxyType({})])
def test_no_headers_take_no_room(headers: Any) -> None:
    assert encode_headers(headers) is None
    assert decode_headers(None) == {}


def test_headers_are_handed_out_as_a_dict_of_the_callers_own() -> None:
    encoded = encode_headers({"a": "b"})
    decode_headers(encoded).clear()
    assert decode_headers(encoded) == {"a": "b"}


REFUSED: dict[str, tuple[Any, str]] = {
    "a list": ([], "not list"),
    "text": ("", "not str"),
    "zero": (0, "not int"),
    "false": (False, "not bool"),
    "pairs": ([("a", "b")], "not list"),
    "a number as value": ({"a": 1}, "'a'.*convert the value"),
    "None as value": ({"a": None}, "'a'.*convert the value"),
    "bytes as value": ({"a": b"b"}, "'a'.*convert the value"),
    "a number as name": ({1: "b"}, "names and values are str"),
    "an empty name": ({"": "b"}, "may not be empty"),
    "a reserved name": ({"streams-id": "b"}, "'streams-'"),
    "a reserved name in capitals": ({"Streams-Id": "b"}, "'streams-'"),
    "a lone surrogate in a name": ({"a\ud800": "b"}, "lone surrogate"),
    "a lone surrogate in a value": ({"a": "\ud800"}, "lone surrogate"),
    "too many": ({str(number): "" for number in range(65)}, "at most 64 headers, this one has 65"),
    "too long a value": ({"a": "b" * 16_384}, "at most 16,384 bytes together, these have 16,385"),
    "too long in UTF-8": ({"a": "é" * 8_192}, "at most 16,384 bytes together, these have 16,385"),
    "too long together": ({"é" * 4_096: "é" * 4_096, "a": ""}, "at most 16,384 bytes together, these have 16,385"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_headers_is_refused_with_the_reason(case: str) -> None:
    headers, sentence = REFUSED[case]
    with pytest.raises(InvalidHeaders, match=sentence):
        encode_headers(headers)


def test_headers_may_have_16_kib_together() -> None:
    headers = {"é" * 4_096: "é" * 4_096}
    assert decode_headers(encode_headers(headers)) == headers


def test_a_refusal_does_not_quote_a_value() -> None:
    with pytest.raises(InvalidHeaders) as refused:
        encode_headers({"card": ["4111"]})  # type: ignore[dict-item]
    assert "4111" not in str(refused.value)

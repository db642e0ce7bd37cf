"""Keys, headers and receipts: what surrounds a record's payload, and what is allowed there."""

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

import msgspec

from streams.errors import InvalidHeaders, InvalidKey

Key = str | int | UUID | None
"""What order is kept within: stored as its `str`, so `7` and `"7"` are one key. None asks for no order."""

KEY_BYTES = 1024
HEADERS = 64
HEADERS_BYTES = 16 * 1024
RESERVED = "streams-"


class Receipt(NamedTuple):
    """Where a published record is: durable once this is returned (with `connection=`: once that commits)."""

    topic: str
    partition: int
    offset: int


def encode_key(key: Key) -> str | None:
    """A key as it is stored.

    Raises:
        InvalidKey: not a str, int, UUID or None, over 1,024 bytes of UTF-8, or with a NUL or lone surrogate.
    """
    match key:
        case str():
            text = str.__str__(key)
        case None:
            return None
        case bool():
            raise InvalidKey("a key may not be a bool: True and 1 would be two names of one customer")
        case int() if key.bit_length() < 4096:
            text = int.__repr__(key)
        case UUID():
            text = UUID.__str__(key)
        case int():
            raise InvalidKey(f"a key may have at most {KEY_BYTES:,} bytes of UTF-8, and this int has more digits")
        case _:
            raise InvalidKey(f"a key is a str, int, UUID or None, not {type(key).__name__}; use its str()")
    if len(text) > KEY_BYTES or not text.isascii():
        _check_length(text)
    if "\0" in text:
        raise InvalidKey("a key may not contain a NUL character")
    return text


def _check_length(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidKey("a key may not contain a lone surrogate: it has no UTF-8 form") from None
    if size > KEY_BYTES:
        raise InvalidKey(f"a key may have at most {KEY_BYTES:,} bytes of UTF-8, this one has {size:,}")


def encode_headers(headers: Mapping[str, str] | None) -> bytes | None:
    """Headers as they are stored; None for none.

    Raises:
        InvalidHeaders: not a dict of str to str, over 64 entries or 16 KiB, or with a reserved or empty name.
    """
    if headers is None:
        return None
    if not isinstance(headers, Mapping):
        raise InvalidHeaders(f"headers are a dict of str to str, not {type(headers).__name__}")
    if not headers:
        return None
    if len(headers) > HEADERS:
        raise InvalidHeaders(f"a record may have at most {HEADERS} headers, this one has {len(headers)}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidHeaders(f"header {name!r}: names and values are str; convert the value first")
        if not name or name.lower().startswith(RESERVED):
            raise InvalidHeaders(f"header {name!r}: a name may not be empty nor start with {RESERVED!r}")
    try:
        size = sum(len(name.encode()) + len(value.encode()) for name, value in headers.items())
    except UnicodeEncodeError:
        raise InvalidHeaders("headers may not contain a lone surrogate: it has no UTF-8 form") from None
    if size > HEADERS_BYTES:
        raise InvalidHeaders(f"headers may have at most {HEADERS_BYTES:,} bytes together, these have {size:,}")
    return msgspec.json.encode({str.__str__(name): str.__str__(value) for name, value in headers.items()})


def decode_headers(headers: bytes | None) -> dict[str, str]:
    """Stored headers as a dict of the caller's own."""
    return {} if headers is None else msgspec.json.decode(headers, type=dict[str, str])

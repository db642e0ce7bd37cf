"""Payloads to bytes and back: typed, strict, and read once more before they are written.

What a handler cannot read is never stored, and what it reads equals what was published. A payload is converted
strictly to the topic's type, encoded, and decoded again; what comes out has to equal what went in, or a UUID in a dict
would come back as text, and a NaN in a `float | None` as None.
"""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Generic, Literal, TypeVar

import msgspec

from streams.errors import InvalidPayload, PayloadTooLarge, SettingsError

T = TypeVar("T")

CodecName = Literal["json", "msgpack", "bytes"]


class Codec(Generic[T]):
    """Encodes and decodes the payloads of one topic.

    `decode` is the decoder's own method, since handlers wait for it: bytes in, payload out; it raises a ValueError
    (msgspec's or a Unicode one) for bytes that are not of the topic's type.
    """

    decode: Callable[[bytes], T]

    def __init__(self, topic: str, type_: Any, codec: CodecName | None, max_payload: int) -> None:
        usual: CodecName = "bytes" if type_ is bytes else "json"
        self.name = usual if codec is None else codec
        self._topic = topic
        self._type = type_
        self._struct = type_ if isinstance(type_, type) and issubclass(type_, msgspec.Struct) else None
        self._max_payload = max_payload
        if self.name not in ("json", "msgpack", "bytes"):
            raise SettingsError(f"topic {topic!r}: codec={codec!r} is not one of 'json', 'msgpack', 'bytes'")
        if (self.name == "bytes") != (type_ is bytes):
            raise SettingsError(f"topic {topic!r}: codec='bytes' and the type bytes belong together")
        if self.name == "bytes":
            self.decode = bytes  # type: ignore[assignment]
            return
        protocol: Any = msgspec.json if self.name == "json" else msgspec.msgpack
        try:
            self.decode = protocol.Decoder(type_).decode
        except TypeError as error:
            raise SettingsError(f"topic {topic!r}: payloads of {type_!r} cannot be decoded: {error}") from error
        self._dump = protocol.Encoder().encode

    def encode(self, payload: T) -> bytes:
        """The bytes of a payload.

        Raises:
            InvalidPayload: it is not, and does not strictly convert to, the topic's type, or would come back different.
            PayloadTooLarge: it has more than `max_payload` bytes.
        """
        if self.name == "bytes":
            return self._encode_bytes(payload)
        try:
            # A Struct of the very type passes `convert` as it is, so the call is saved; the decoder looks into it.
            converted = payload if type(payload) is self._struct else msgspec.convert(payload, self._type, strict=True)
            raw: bytes = self._dump(converted)
            same = _same(converted, self.decode(raw))
        except Exception as error:  # whatever a __post_init__ or __eq__ raises; it may quote the payload, so no chain
            raise InvalidPayload(f"topic {self._topic!r}: {_reason(error, self._type)}") from None
        if not same:
            raise InvalidPayload(
                f"topic {self._topic!r}: the payload would not come back as it is: a field holds another type than "
                f"{_type_name(self._type)} says, or, where that leaves the content open (dict, Any), something that "
                f"{self.name} cannot tell from others, such as a UUID or a tuple; say its type in a msgspec.Struct"
            )
        self._check_size(raw)
        return raw

    def _encode_bytes(self, payload: T) -> bytes:
        if not isinstance(payload, bytes | bytearray | memoryview):
            raise InvalidPayload(f"topic {self._topic!r}: the payload is bytes, not {type(payload).__name__}")
        raw = bytes(payload)
        self._check_size(raw)
        return raw

    def _check_size(self, raw: bytes) -> None:
        if len(raw) > self._max_payload:
            raise PayloadTooLarge(self._topic, len(raw), self._max_payload)


def _reason(error: Exception, type_: Any) -> str:
    """Why, without the payload: types and places are named, values are not."""
    match error:
        case RecursionError():
            return "the payload is nested too deeply, or contains itself"
        case UnicodeError():
            return "the payload contains a lone surrogate, which has no UTF-8 form"
        case msgspec.ValidationError(__cause__=None):
            return f"the payload is not {_type_name(type_)}: {_without_values(str(error))}"
        case TypeError() if str(error).startswith("Encoding objects of type"):
            return f"the payload cannot be encoded: {error}"
        case _:
            cause = error.__cause__ or error
            return f"the payload cannot be converted to {_type_name(type_)} and encoded ({type(cause).__name__})"


def _without_values(message: str) -> str:
    """A message of msgspec's with its path, but without a value or name that came with the payload."""
    if message.startswith("Object contains unknown field"):
        return "it has a field that the type does not know"
    return re.sub(r"(?s)^(Invalid (?:enum )?value) .*?( - at `[^`]*`(?: in `[^`]*`)?)?$", r"\1\2", message)


def _type_name(type_: Any) -> str:
    return type_.__name__ if isinstance(type_, type) else str(type_)


def _same(one: Any, other: Any) -> bool:
    """Whether a payload came back as it was, also where `==` says too little.

    NaN is not equal to itself, an instant not to itself in a zone that repeats the hour, and a class without `__eq__`
    only to the same object: these are looked into.
    """
    if one == other:
        return True
    if type(one) is not type(other):
        return False
    match one:
        case float() | Decimal():
            return bool(one != one and other != other)
        case datetime():
            return None not in (one.tzinfo, other.tzinfo) and one.astimezone(UTC) == other.astimezone(UTC)
        case list() | tuple():
            return len(one) == len(other) and all(map(_same, one, other))
        case dict():
            return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    fields = _fields(type(one))
    return fields is not None and all(_same(getattr(one, name), getattr(other, name)) for name in fields)


def _fields(kind: Any) -> list[str] | None:
    """The names of a class's fields; None for one that has no such thing."""
    if issubclass(kind, msgspec.Struct):
        return list(kind.__struct_fields__)
    if is_dataclass(kind):
        return [field.name for field in fields(kind)]
    attributes = getattr(kind, "__attrs_attrs__", None)
    return None if attributes is None else [attribute.name for attribute in attributes]

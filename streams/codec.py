"""Payloads to bytes and back: typed, strict, and read once more before they are written.

What a handler cannot read is never stored, and what it reads equals what was published. A payload is converted
strictly to the topic's type, encoded, and decoded again; where the type leaves the content open (`dict`, `Any`) the
decoded value has to equal the original, or a UUID in a dict would come back as text.
"""

from collections.abc import Callable
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
        self.name: CodecName = codec or ("bytes" if type_ is bytes else "json")
        self._topic = topic
        self._type = type_
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
            self._open = _leaves_content_open(type_)
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
            converted = msgspec.convert(payload, self._type, strict=True)
            raw: bytes = self._dump(converted)
            again = self.decode(raw)
        except RecursionError as error:
            raise InvalidPayload(
                f"topic {self._topic!r}: the payload is nested too deeply, or contains itself"
            ) from error
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
            raise InvalidPayload(f"topic {self._topic!r}: {_reason(error, self._type)}") from error
        if self._open and again != converted:
            raise InvalidPayload(
                f"topic {self._topic!r}: the payload would not come back as it is: {_type_name(self._type)} leaves "
                f"its content open, and {self.name} has no dates, UUIDs, tuples, NaN or keys other than str "
                f"there; give the topic a msgspec.Struct or dataclass as type"
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
    """Why, without the payload: msgspec names types and paths, a UnicodeEncodeError would quote the text."""
    if isinstance(error, UnicodeError):
        return "the payload contains a lone surrogate, which has no UTF-8 form"
    if isinstance(error, msgspec.ValidationError):
        return f"the payload is not {_type_name(type_)}: {error}"
    return f"the payload cannot be encoded ({type(error).__name__})"


def _type_name(type_: Any) -> str:
    return getattr(type_, "__name__", None) or str(type_)


def _leaves_content_open(type_: Any) -> bool:
    """Whether `Any` or `object` occurs in a type."""
    seen: set[int] = set()
    todo: list[Any] = [msgspec.inspect.type_info(type_)]
    while todo:
        node = todo.pop()
        if isinstance(node, msgspec.inspect.AnyType):
            return True
        if isinstance(node, tuple | list):
            todo += node
        elif isinstance(node, msgspec.Struct) and id(node) not in seen:
            seen.add(id(node))
            todo += [getattr(node, name) for name in node.__struct_fields__]
    return False

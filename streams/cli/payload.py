"""Payloads given as text, for topics whose type only a program knows."""

from typing import Any

import msgspec

from streams.codec import CodecName
from streams.errors import InvalidPayload

TYPES: dict[CodecName, Any] = {"json": msgspec.Raw, "msgpack": Any, "bytes": bytes}
"""What a topic of each codec is declared with here. JSON goes in as it was written, digit by digit."""


def from_argument(text: str, codec: CodecName) -> Any:
    """What a topic takes for a payload from the command line: JSON, or for a topic of bytes the text itself.

    Raises:
        InvalidPayload: not that.
    """
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise InvalidPayload("the payload is not UTF-8") from None
    return raw if codec == "bytes" else from_json(raw, codec)


def from_json(raw: bytes, codec: CodecName) -> Any:
    """What a topic takes for a payload that is JSON: for a topic of bytes, the UTF-8 of a JSON string.

    Raises:
        InvalidPayload: not that.
    """
    try:
        match codec:
            case "bytes":
                return msgspec.json.decode(raw, type=str).encode()
            case "msgpack":
                return msgspec.json.decode(raw)
            case "json":
                msgspec.json.decode(raw)  # Formatting does not look inside strings.
                return msgspec.Raw(msgspec.json.format(raw, indent=-1))
    except msgspec.ValidationError:
        raise InvalidPayload("the payload of a topic of bytes is a JSON string here, whose UTF-8 is stored") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidPayload(f"the payload is not valid JSON: {error}; quote it for the shell, as '\"text\"'") from None

"""What a topic's type takes comes back equal; what would not is refused before it is written, and never quoted."""

import enum
import math
import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pytest

from streams import InvalidPayload, PayloadTooLarge, Streams
from streams.codec import Codec, CodecName

T = TypeVar("T")

ID = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
NOON = datetime(2026, 3, 1, 12, 0, 0, 123456)
FAR_EAST = timezone(timedelta(hours=9, minutes=30))
BERLIN = ZoneInfo("Europe/Berlin")


class Colour(enum.Enum):
    RED = "red"


class Line(msgspec.Struct, frozen=True):
    sku: str
    count: int = 1


class GiftLine(Line, frozen=True):
    wrapping: str = "paper"


class Order(msgspec.Struct):
    id: int
    total: float = 0.0
    lines: list[Line] = []
    at: datetime | None = None
    discount: float | None = None
    colour: Colour = Colour.RED
    tags: tuple[str, ...] = ()
    customer: UUID | None = None
    price: Decimal | None = None
    notes: Sequence[str] = []


class Box(msgspec.Struct, Generic[T]):
    value: T


class Node(msgspec.Struct):
    value: int
    next: "Node | None" = None
    children: "list[Node]" = []


class Placed(msgspec.Struct, tag="placed"):
    total: float


class Cancelled(msgspec.Struct, tag="cancelled"):
    reason: str


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    id: int


class Positional(msgspec.Struct, array_like=True, omit_defaults=True, rename="camel"):
    order_id: int
    total_price: float = 1.5


class Checked(msgspec.Struct):
    card: str

    def __post_init__(self) -> None:
        if self.card.startswith("value"):
            raise ValueError(f"{self.card} is not a card")
        if self.card.startswith("key"):
            raise KeyError(self.card)


@dataclass
class Customer:
    name: str
    tags: list[str] = field(default_factory=list)
    seen: datetime | None = None


@dataclass
class Counter:
    name: str
    count: int = field(init=False, default=0)


@dataclass(eq=False)
class Uncomparable:
    name: str
    ratio: float = 0.0


class UncomparableStruct(msgspec.Struct, eq=False):
    lines: list[Line]


@attrs.define(eq=False)
class UncomparableAttrs:
    name: str


@attrs.define
class Address:
    city: str
    zip: int | None = None


@attrs.frozen
class Place:
    address: Address


class Event(TypedDict):
    id: int
    at: NotRequired[datetime]


class Point(NamedTuple):
    x: int
    y: int


class Text(str):
    pass


def codec_of(type_: Any, codec: CodecName | None = None, max_payload: int = 1 << 20) -> Codec[Any]:
    return Codec("orders", type_, codec, max_payload)


def linked(depth: int) -> Node:
    node = Node(0)
    for value in range(1, depth):
        node = Node(value, next=node)
    return node


def containing_itself() -> list[Any]:
    loop: list[Any] = []
    loop.append([loop])
    return loop


def nested(depth: int) -> list[Any]:
    inner: list[Any] = []
    for _ in range(depth):
        inner = [inner]
    return inner


BOTH: dict[str, tuple[Any, Any]] = {
    "a struct": (Order, Order(1, 19.99, [Line("a"), Line("b", 2)], NOON, 0.5, Colour.RED, ("x",), ID, Decimal("1.50"))),
    "a frozen struct": (Line, Line("a", 2)),
    "a generic struct": (Box[int], Box(7)),
    "a generic struct of structs": (Box[list[Line]], Box([Line("a")])),
    "a struct laid out otherwise": (Positional, Positional(7)),
    "a recursive struct": (Node, Node(1, Node(2), [Node(3, None, [Node(4)])])),
    "a deep struct": (Node, linked(100)),
    "a dataclass": (Customer, Customer("ann", ["a"], NOON)),
    "a field that is not in the constructor": (Counter, Counter("a")),
    "a TypedDict": (Event, {"id": 1, "at": NOON.replace(tzinfo=UTC)}),
    "a TypedDict without what is not required": (Event, {"id": 1}),
    "an attrs class": (Address, Address("Oslo", 1)),
    "an attrs class in another": (Place, Place(Address("Oslo"))),
    "one of a tagged union": (Placed | Cancelled, Placed(1.5)),
    "the other of a tagged union": (Placed | Cancelled, Cancelled("late")),
    "a list of structs": (list[Line], [Line("a"), Line("b")]),
    "a NamedTuple": (Point, Point(1, 2)),
    "an enum": (Colour, Colour.RED),
    "a literal": (Literal["a", "b"], "a"),
    "text": (str, "ключ 🔑 \0 \n\u2028"),
    "a number": (int, -7),
    "the largest of 64 bits": (int, 2**64 - 1),
    "the smallest of 64 bits": (int, -(2**63)),
    "a float": (float, 0.1 + 0.2),
    "a whole number as a float": (float, 5),
    "a bool": (bool, True),
    "None": (None, None),
    "an optional": (int | None, None),
    "a UUID": (UUID, ID),
    "a decimal": (Decimal, Decimal("12345678901234567890.1200")),
    "a naive datetime": (datetime, NOON),
    "an aware datetime": (datetime, NOON.replace(tzinfo=UTC)),
    "a datetime with an offset": (datetime, NOON.replace(tzinfo=FAR_EAST)),
    "a datetime in a zone": (datetime, NOON.replace(tzinfo=BERLIN)),
    "a date": (date, NOON.date()),
    "a time": (time, NOON.time()),
    "a span": (timedelta, timedelta(days=-1, microseconds=1)),
    "a set": (set[int], {1, 2}),
    "a frozen set": (frozenset[str], frozenset("ab")),
    "a tuple": (tuple[int, str], (1, "a")),
    "a dict by UUID": (dict[UUID, int], {ID: 1}),
    "a dict by number": (dict[int, str], {1: "a"}),
    "an open dict": (dict, {"a": [1, 2.5, None, True, {"b": "c"}]}),
    "an ordered dict": (dict, OrderedDict(a=1)),
    "a mapping": (dict, MappingProxyType({"a": 1})),
    "an open list": (list, [1, "a", None, [2.5]]),
    "anything": (Any, {"a": [1]}),
    "an object": (object, ["a"]),
    "nothing as anything": (Any, None),
    "deep nesting": (list, nested(100)),
}

MSGPACK: dict[str, tuple[Any, Any]] = {
    "NaN": (float, math.nan),
    "infinity": (float, -math.inf),
    "NaN where None may be": (Order, Order(1, discount=math.nan)),
    "NaN in a dict": (dict, {"a": [math.nan, math.inf]}),
    "a dict by number": (dict, {1: "a", -1: "b"}),
    "bytes": (Any, b"\xff\0"),
    "an aware datetime": (Any, {"at": NOON.replace(tzinfo=UTC)}),
}


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize("case", BOTH)
def test_a_payload_comes_back_equal(case: str, codec: CodecName) -> None:
    type_, payload = BOTH[case]
    topic = codec_of(type_, codec)
    again = topic.decode(topic.encode(payload))
    assert again == payload


@pytest.mark.parametrize("case", MSGPACK)
def test_messagepack_tells_more_apart(case: str) -> None:
    type_, payload = MSGPACK[case]
    topic = codec_of(type_, "msgpack")
    assert repr(topic.decode(topic.encode(payload))) == repr(payload)


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_the_hour_that_comes_twice_keeps_its_instant(codec: CodecName) -> None:
    """Such a datetime equals none of another zone, itself in UTC included."""
    second = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    topic = codec_of(dict[str, list[datetime]], codec)
    (again,) = topic.decode(topic.encode({"at": [second]}))["at"]
    assert again != second
    assert again.astimezone(UTC) == second.astimezone(UTC)


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_a_decimal_that_is_no_number_comes_back_as_none(codec: CodecName) -> None:
    topic = codec_of(Decimal, codec)
    assert topic.decode(topic.encode(Decimal("NaN"))).is_nan()


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize(
    ("type_", "payload"),
    [
        (Uncomparable, Uncomparable("a", 0.5)),
        (UncomparableStruct, UncomparableStruct([Line("a")])),
        (UncomparableAttrs, UncomparableAttrs("a")),
        (list[Uncomparable], [Uncomparable("a"), Uncomparable("b")]),
    ],
    ids=str,
)
def test_a_class_without_equality_is_compared_by_its_fields(type_: Any, payload: Any, codec: CodecName) -> None:
    topic = codec_of(type_, codec)
    assert topic.encode(topic.decode(topic.encode(payload))) == topic.encode(payload)


@pytest.mark.parametrize("given", [b"a", bytearray(b"a"), memoryview(b"a"), memoryview(b"axa")[::2][:1]])
def test_bytes_are_stored_as_they_are(given: Any) -> None:
    topic = codec_of(bytes)
    assert topic.name == "bytes"
    assert topic.encode(given) == b"a"
    assert topic.decode(b"\xff\0") == b"\xff\0"


def test_json_keeps_integers_of_any_size() -> None:
    topic = codec_of(int)
    assert topic.decode(topic.encode(2**200 + 1)) == 2**200 + 1


@pytest.mark.parametrize(
    ("type_", "payload", "again"),
    [
        (Order, {"id": 1, "lines": [{"sku": "a"}]}, Order(1, lines=[Line("a")])),
        (Order, MappingProxyType({"id": 1}), Order(1)),
        (Order, {"id": 1, "at": NOON, "customer": str(ID)}, Order(1, at=NOON, customer=ID)),
        (Customer, {"name": "ann"}, Customer("ann")),
        (Address, {"city": "Oslo"}, Address("Oslo")),
        (Placed | Cancelled, {"type": "placed", "total": 1}, Placed(1)),
        (list[int], (1, 2), [1, 2]),
        (tuple[int, ...], [1, 2], (1, 2)),
        (UUID, str(ID), ID),
        (datetime, "2026-03-01T12:00:00.123456", NOON),
    ],
)
def test_what_strictly_converts_is_converted(type_: Any, payload: Any, again: Any) -> None:
    topic = codec_of(type_)
    assert topic.decode(topic.encode(payload)) == again


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "text for a number": (int, "5", "Expected `int`, got `str`"),
    "a float for a number": (int, 5.0, "Expected `int`, got `float`"),
    "a bool for a number": (int, True, "Expected `int`, got `bool`"),
    "a number for text": (str, 5, "Expected `str`, got `int`"),
    "bytes for text": (str, b"a", "orders"),
    "a number for None": (None, 1, "Expected `null`, got `int`"),
    "None": (Order, None, "Expected `object`, got `null`"),
    "another struct": (Order, Line("a"), "Expected `object`, got `Line`"),
    "a struct with more fields": (Line, GiftLine("a"), "Expected `object`, got `GiftLine`"),
    "a missing field": (Order, {"total": 1.0}, "missing required field `id`"),
    "text for a number in a dict": (Order, {"id": "1"}, r"Expected `int`, got `str` - at `\$.id`"),
    "text for a number in a struct": (Order, Order("1"), r"Expected `int`, got `str` - at `\$.id`"),  # type: ignore[arg-type]
    "a float for a number in a struct": (Order, Order(1.0), r"Expected `int`, got `float` - at `\$.id`"),  # type: ignore[arg-type]
    "a bool for a number in a struct": (Order, Order(True), r"Expected `int`, got `bool` - at `\$.id`"),
    "text for a datetime in a struct": (Order, Order(1, at="2026-03-01T12:00:00Z"), "come back as it is"),  # type: ignore[arg-type]
    "text for a UUID in a struct": (Order, Order(1, customer=str(ID)), "come back as it is"),  # type: ignore[arg-type]
    "text for a decimal in a struct": (Order, Order(1, price="1.5"), "come back as it is"),  # type: ignore[arg-type]
    "text for an enum in a struct": (Order, Order(1, colour="red"), "come back as it is"),  # type: ignore[arg-type]
    "a list for a tuple in a struct": (Order, Order(1, tags=["a"]), "come back as it is"),  # type: ignore[arg-type]
    "a tuple for a sequence in a struct": (Order, Order(1, notes=("a",)), "come back as it is"),
    "a struct with more fields in a struct": (Order, Order(1, lines=[GiftLine("a")]), "come back as it is"),
    "a number that no float holds": (Order, Order(1, total=2**60 + 1), "come back as it is"),
    "text for a number deep inside": (Order, Order(1, lines=[Line("a", "2")]), r"`\$.lines\[0\].count`"),  # type: ignore[arg-type]
    "text for a number in a dataclass": (Customer, Customer("a", [1]), r"`\$.tags\[0\]`"),  # type: ignore[list-item]
    "text for a number in an attrs class": (Address, Address("a", "1"), r"`\$.zip`"),  # type: ignore[arg-type]
    "text for a number in a TypedDict": (Event, {"id": "1"}, r"`\$.id`"),
    "text for a number in a generic": (Box[int], Box("1"), r"`\$.value`"),
    "text for a number in a list": (list[int], [1, "2"], r"`\$\[1\]`"),
    "none of a tagged union": (Placed | Cancelled, Line("a"), "got `Line`"),
    "a constraint": (Annotated[int, msgspec.Meta(gt=5)], 5, "Expected `int` >= 6"),
    "a lone surrogate": (str, "a\ud800", "lone surrogate"),
    "a lone surrogate in a key": (dict, {"a\ud800": 1}, "lone surrogate"),
    "a lone surrogate in a field": (Line, Line("\udfff"), "lone surrogate"),
    "a list that contains itself": (list, containing_itself(), "contains itself"),
    "too deep": (list, nested(100_000), "nested too deeply"),
    "a class nobody knows": (Any, Colour, "unsupported"),
    "a function": (Any, len, "unsupported"),
    "a kind of text": (Any, Text("a"), "objects of type Text is unsupported"),
    "a generator": (list, (number for number in range(3)), "got `generator`"),
    "a UUID in an open dict": (dict, {"id": ID}, "come back as it is"),
    "a UUID as an open key": (dict, {ID: 1}, "come back as it is"),
    "a tuple in an open dict": (dict, {"a": (1, 2)}, "come back as it is"),
    "a tuple as anything": (Any, (1, 2), "come back as it is"),
    "a NamedTuple as anything": (Any, Point(1, 2), "come back as it is"),
    "a set as anything": (Any, {1}, "come back as it is"),
    "a decimal as anything": (Any, Decimal("1.5"), "come back as it is"),
    "a naive datetime as anything": (Any, NOON, "come back as it is"),
    "a date as anything": (Any, NOON.date(), "come back as it is"),
    "a struct as anything": (Any, Line("a"), "come back as it is"),
    "a dataclass as an object": (object, Customer("a"), "come back as it is"),
    "a tuple in an open generic": (Box, Box((1,)), "come back as it is"),
    "a tuple in a generic of anything": (Box[Any], Box((1,)), "come back as it is"),
}

JSON: dict[str, tuple[Any, Any, str]] = {
    "NaN": (float, math.nan, "Expected `float`, got `null`"),
    "infinity": (float, math.inf, "Expected `float`, got `null`"),
    "NaN where None may be": (Order, Order(1, discount=math.nan), "come back as it is"),
    "NaN in a dict": (dict, {"a": math.nan}, "come back as it is"),
    "a number as an open key": (dict, {1: "a"}, "come back as it is"),
    "keys that become one": (dict, {1: "a", "1": "b"}, "come back as it is"),
    "bytes as anything": (Any, b"a", "come back as it is"),
    "an aware datetime as anything": (Any, NOON.replace(tzinfo=UTC), "come back as it is"),
    "an offset of seconds": (datetime, NOON.replace(tzinfo=timezone(timedelta(seconds=1172))), "come back as it is"),
}

BEYOND_64_BITS = {
    "a number": (int, 2**64, "OverflowError"),
    "a negative number": (int, -(2**63) - 1, "OverflowError"),
    "a number in a dict": (dict, {"a": 2**64}, "OverflowError"),
    "a number in a struct": (Order, Order(2**64), "OverflowError"),
}


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_of_the_type_is_refused_with_the_reason(case: str, codec: CodecName) -> None:
    type_, payload, sentence = REFUSED[case]
    with pytest.raises(InvalidPayload, match=sentence):
        codec_of(type_, codec).encode(payload)


@pytest.mark.parametrize("case", JSON)
def test_what_json_cannot_tell_apart_is_refused(case: str) -> None:
    type_, payload, sentence = JSON[case]
    with pytest.raises(InvalidPayload, match=sentence):
        codec_of(type_).encode(payload)


@pytest.mark.parametrize("case", BEYOND_64_BITS)
def test_messagepack_refuses_integers_beyond_64_bits(case: str) -> None:
    type_, payload, sentence = BEYOND_64_BITS[case]
    with pytest.raises(InvalidPayload, match=sentence):
        codec_of(type_, "msgpack").encode(payload)


@pytest.mark.parametrize("payload", ["text", 5, None, [1], ["a"]])
def test_what_is_not_bytes_is_refused(payload: Any) -> None:
    with pytest.raises(InvalidPayload, match="the payload is bytes, not"):
        codec_of(bytes).encode(payload)


SECRET = "4111-secret"

SECRETS: dict[str, tuple[Any, Any]] = {
    "an enum": (Order, {"id": 1, "colour": SECRET}),
    "an enum with quotes": (Order, {"id": 1, "colour": f"' - at `$.id` {SECRET}"}),
    "an enum of lines": (Colour, f"a\n{SECRET}"),
    "a literal": (Literal["a"], SECRET),
    "a number among literals": (Literal[1], 4111),
    "a tag": (Placed | Cancelled, {"type": SECRET}),
    "a field nobody knows": (Strict, {"id": 1, SECRET: 1}),
    "a field nobody knows with quotes": (Strict, {"id": 1, f"` - at `${SECRET}": 1}),
    "a check of the type's own": (Checked, {"card": f"value{SECRET}"}),
    "another error of the type's own": (Checked, {"card": f"key{SECRET}"}),
    "a lone surrogate": (str, f"{SECRET}\ud800"),
    "a wrong key": (dict[int, int], {SECRET: 1}),
    "a wrong value": (dict[str, int], {SECRET: SECRET}),
    "what would come back different": (dict, {SECRET: (SECRET,)}),
    "what cannot be encoded": (dict, {SECRET: Text(SECRET)}),
    "a wrong UUID": (UUID, SECRET),
    "a wrong datetime": (datetime, SECRET),
    "a pattern": (Annotated[str, msgspec.Meta(pattern="^a$")], SECRET),
}


@pytest.mark.parametrize("codec", ["json", "msgpack"])
@pytest.mark.parametrize("case", SECRETS)
def test_a_refusal_never_quotes_the_payload(case: str, codec: CodecName) -> None:
    type_, payload = SECRETS[case]
    with pytest.raises(InvalidPayload) as refused:
        codec_of(type_, codec).encode(payload)
    assert "4111" not in "".join(traceback.format_exception(refused.value))


def test_a_refusal_says_where_an_enum_is_wrong() -> None:
    with pytest.raises(InvalidPayload, match=r"is not Order: Invalid enum value - at `\$.colour`$"):
        codec_of(Order).encode({"id": 1, "colour": SECRET})


@pytest.mark.parametrize("codec", ["json", "msgpack"])
def test_a_payload_may_have_max_payload_bytes(codec: CodecName) -> None:
    size = len(codec_of(str, codec).encode("a" * 100))
    assert codec_of(str, codec, size).encode("a" * 100)
    with pytest.raises(PayloadTooLarge) as refused:
        codec_of(str, codec, size - 1).encode("a" * 100)
    assert (refused.value.topic, refused.value.size, refused.value.limit) == ("orders", size, size - 1)


def test_bytes_may_have_max_payload_bytes() -> None:
    topic = codec_of(bytes, None, 4)
    assert topic.encode(b"1234") == b"1234"
    with pytest.raises(PayloadTooLarge, match=r"5 bytes encoded, the limit is 4; raise max_payload="):
        topic.encode(b"12345")


def test_a_mebibyte_is_the_limit_unless_said_otherwise() -> None:
    topic: Callable[..., Any] = Streams("memory://").topic
    assert topic("a", bytes).prepare("key", b"a" * (1 << 20), None)
    with pytest.raises(PayloadTooLarge):
        topic("b", bytes).prepare("key", b"a" * ((1 << 20) + 1), None)
    assert topic("c", bytes, max_payload=1 << 21).prepare("key", b"a" * (1 << 21), None)

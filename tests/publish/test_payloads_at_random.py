"""Whatever is accepted decodes to an equal value; whatever is not is refused with `InvalidPayload`, nothing else."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import InvalidPayload
from streams.codec import Codec, CodecName

STEADY = settings(derandomize=True, deadline=None, max_examples=200)


class Leaf(msgspec.Struct):
    number: int
    text: str = ""


@dataclass
class Branch:
    ratio: float | None
    leaves: list[Leaf]
    at: datetime | None = None


class Tree(msgspec.Struct):
    """Fields of many types, each of which may be given a value of another."""

    id: UUID
    price: Decimal
    at: datetime
    span: timedelta
    raw: bytes
    names: tuple[str, ...]
    ratios: dict[str, float]
    by_id: dict[UUID, int]
    branches: list[Branch]
    open: Any


texts = st.text(st.characters(), max_size=5)  # with lone surrogates
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    texts,
    st.binary(max_size=5),
    st.uuids(),
    st.decimals(allow_nan=True),
    st.datetimes(timezones=st.one_of(st.none(), st.timezones())),
    st.timedeltas(timedelta(days=-9999), timedelta(days=9999)),
    st.dates(),
)
keys = st.one_of(texts, st.integers(), st.uuids(), st.none(), st.booleans())
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
    ),
    max_leaves=8,
)


leaves = st.builds(Leaf, st.integers(-(2**63), 2**63), st.text(max_size=3))
branches = st.builds(Branch, st.none() | st.floats(allow_nan=False), st.lists(leaves, max_size=2), st.none())
right_trees = st.builds(
    Tree,
    st.uuids(),
    st.decimals(allow_nan=False),
    st.datetimes(datetime(1980, 1, 1), datetime(2100, 1, 1), timezones=st.timezones()),
    st.timedeltas(timedelta(days=-9999), timedelta(days=9999)),
    st.binary(max_size=3),
    st.lists(st.text(max_size=3), max_size=2).map(tuple),
    st.dictionaries(st.text(max_size=3), st.floats(), max_size=2),
    st.dictionaries(st.uuids(), st.integers(0, 9), max_size=2),
    st.lists(branches, max_size=2),
    st.dictionaries(st.text(max_size=3), st.one_of(st.integers(0, 9), st.text(max_size=3)), max_size=2),
)
spoilt_trees = st.builds(
    lambda tree, name, value: msgspec.structs.replace(tree, **{name: value}),
    right_trees,
    st.sampled_from(Tree.__struct_fields__),
    scalars,
)


def plain(value: Any) -> Any:
    """A value whose equality says all: type by type, NaN equal to itself, instants in UTC."""
    match value:
        case msgspec.Struct():
            return type(value), [plain(getattr(value, name)) for name in value.__struct_fields__]
        case Branch():
            return Branch, plain(value.ratio), plain(value.leaves), plain(value.at)
        case list() | tuple():
            return type(value), [plain(item) for item in value]
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case datetime(tzinfo=None):
            return "naive", value
        case datetime():
            return "aware", value.astimezone(UTC)
        case float() | Decimal() if math.isnan(value):
            return "NaN"
        case int() | float() | Decimal():
            return "number", value  # 1 for 1.0 is allowed: they are equal
        case _:
            return type(value), value


def comes_back_equal_or_is_refused(type_: Any, codec: CodecName, payload: Any) -> None:
    topic: Codec[Any] = Codec("orders", type_, codec, 1 << 20)
    try:
        raw = topic.encode(payload)
    except InvalidPayload:
        return
    assert plain(topic.decode(raw)) == plain(payload)


def holds_for(type_: Any, payloads: st.SearchStrategy[Any]) -> Callable[[CodecName], None]:
    @pytest.mark.parametrize("codec", ["json", "msgpack"])
    def test(codec: CodecName) -> None:
        @STEADY
        @given(payloads)
        def hold(payload: Any) -> None:
            comes_back_equal_or_is_refused(type_, codec, payload)

        hold()

    return test


test_anything_comes_back_equal_or_is_refused = holds_for(Any, values)
test_a_dict_comes_back_equal_or_is_refused = holds_for(dict, st.dictionaries(keys, values, max_size=4))
test_a_struct_comes_back_equal_or_is_refused = holds_for(Tree, right_trees | spoilt_trees)
test_text_comes_back_equal_or_is_refused = holds_for(str, st.text(st.characters()))
test_an_integer_comes_back_equal_or_is_refused = holds_for(int, st.integers(-(2**70), 2**70))
test_a_float_comes_back_equal_or_is_refused = holds_for(float, st.floats())
test_a_datetime_comes_back_equal_or_is_refused = holds_for(
    datetime, st.datetimes(timezones=st.one_of(st.none(), st.timezones()))
)


@STEADY
@given(right_trees)
def test_a_struct_of_the_right_types_is_accepted(tree: Tree) -> None:
    topic: Codec[Tree] = Codec("orders", Tree, "msgpack", 1 << 20)
    assert plain(topic.decode(topic.encode(tree))) == plain(tree)

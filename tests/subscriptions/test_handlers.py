"""What can be a handler, and which of them get the context."""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import Context as OtherContext
from typing import Any

import pytest

import streams
from streams import Context, SettingsError, Streams
from streams import Context as Renamed
from tests.subscriptions import postponed


class Methods:
    async def plain(self, number: int) -> None: ...

    async def with_context(self, number: int, ctx: Context) -> None: ...

    @classmethod
    async def of_class(cls, number: int, ctx: Context) -> None: ...

    @staticmethod
    async def static(number: int) -> None: ...


class Callable1:
    async def __call__(self, number: int) -> None: ...


class Callable2:
    async def __call__(self, number: int, context: "Context | None" = None) -> None: ...


def traced(function: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(function)
    async def traced(*args: Any, **kwargs: Any) -> None:
        await function(*args, **kwargs)

    return traced


async def only_payload(number: int) -> None: ...
async def optional_second(number: int, retries: int = 3) -> None: ...
async def optional_others(number: int, a: int = 1, b: int = 2, *, c: int = 3) -> None: ...
async def keyword_default(number: int, *, ctx: Context | None = None) -> None: ...
async def any_positional(*args: Any) -> None: ...
async def payload_and_any(number: int, *args: Any, **kwargs: Any) -> None: ...
async def other_context(number: int, context: OtherContext | None = None) -> None: ...
async def contexts(number: int, contexts: list[Context] | None = None) -> None: ...
async def positional_only(number: int, /) -> None: ...
async def default_first(number: int = 0) -> None: ...


async def required(number: int, second: Any) -> None: ...
async def required_positional(number: int, second: Any, /) -> None: ...
async def named(number: int, ctx: Any = None) -> None: ...
async def annotated(number: int, c: Context = None) -> None: ...  # type: ignore[assignment]
async def optional(number: int, c: Context | None = None) -> None: ...
async def in_quotes(number: int, c: "Context | None" = None) -> None: ...
async def by_module(number: int, c: "streams.Context | None" = None) -> None: ...
async def renamed(number: int, c: "Renamed | None" = None) -> None: ...
async def and_others(number: int, ctx: Context, retries: int = 3, *, more: int = 4, **rest: Any) -> None: ...
async def three(connection: object, number: int, ctx: Context) -> None: ...


WITHOUT: dict[str, Any] = {
    "a function": only_payload,
    "a second parameter with a default": optional_second,
    "more parameters with defaults": optional_others,
    "a context by keyword alone": keyword_default,
    "any number of arguments": any_positional,
    "a payload and any number of arguments": payload_and_any,
    "another library's context": other_context,
    "contexts": contexts,
    "a positional parameter": positional_only,
    "a payload with a default": default_first,
    "a method": Methods().plain,
    "a static method": Methods.static,
    "a callable object": Callable1(),
    "a partial with a context of its own": functools.partial(required, second=None),
    "a partial of a callable object": functools.partial(Callable1()),
    "a decorated function": traced(only_payload),
}

WITH: dict[str, Any] = {
    "a required second parameter": required,
    "a required positional one": required_positional,
    "one named ctx": named,
    "one annotated so": annotated,
    "one annotated so or None": optional,
    "one annotated in quotes": in_quotes,
    "one annotated by module": by_module,
    "one annotated under another name": renamed,
    "more parameters with defaults": and_others,
    "a method": Methods().with_context,
    "a class method": Methods.of_class,
    "a callable object": Callable2(),
    "a partial": functools.partial(three, object()),
    "a partial of a partial": functools.partial(functools.partial(three), object()),
    "a partial of a callable object": functools.partial(Callable2()),
    "a decorated function": traced(annotated),
    "postponed annotations": postponed.annotated,
    "postponed annotations in quotes": postponed.in_quotes,
    "postponed annotations for the type checker": postponed.for_the_type_checker,
    "a decorated function with postponed annotations": traced(postponed.annotated),
}


def wants_context(handler: Any) -> bool:
    app = Streams("memory://")
    app.topic("orders", int).subscribe(group="billing")(handler)
    (one,) = app._choose(None, None)
    return one.wants_context


@pytest.mark.parametrize("case", WITHOUT)
def test_a_handler_that_does_not_ask_gets_no_context(case: str) -> None:
    assert not wants_context(WITHOUT[case])


@pytest.mark.parametrize("case", WITH)
def test_a_handler_that_asks_gets_the_context(case: str) -> None:
    assert wants_context(WITH[case])


def test_a_postponed_annotation_of_another_kind_is_no_context() -> None:
    assert not wants_context(postponed.other)


def plain(number: int) -> None: ...


def plain_that_wraps(*args: Any) -> Awaitable[None]:
    return only_payload(*args)


async def generator(number: int) -> AsyncIterator[int]:
    yield number


NOT_ASYNC: dict[str, Any] = {
    "a def": plain,
    "a lambda": lambda number: None,
    "a def that returns an awaitable": functools.wraps(only_payload)(plain_that_wraps),
    "a method": [].append,
    "a partial": functools.partial(plain),
    "a class": Callable1,
    "an async generator": generator,
    "no function": 7,
}


@pytest.mark.parametrize("case", NOT_ASYNC)
def test_what_is_not_async_is_refused_with_what_to_write(case: str) -> None:
    with pytest.raises(SettingsError, match=r"^handler .* is not an async function; write `async def`"):
        wants_context(NOT_ASYNC[case])


async def nothing() -> None: ...
async def three_required(number: int, ctx: Context, more: int) -> None: ...
async def keyword_required(number: int, *, ctx: Context) -> None: ...
async def only_keywords(**kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "sentence"),
    [
        (nothing, "'nothing' takes no parameter; its first one gets the payload"),
        (only_keywords, "'only_keywords' takes no parameter; its first one gets the payload"),
        (three_required, "'three_required': the parameter 'more' needs a default"),
        (keyword_required, "'keyword_required': the parameter 'ctx' needs a default"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_parameters_that_nobody_fills_are_refused(handler: Any, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        wants_context(handler)


def test_a_refused_handler_leaves_the_group_free() -> None:
    app = Streams("memory://")
    orders = app.topic("orders", int)
    with pytest.raises(SettingsError):
        orders.subscribe(group="billing")(plain)  # type: ignore[type-var]
    orders.subscribe(group="billing")(only_payload)

"""Subscriptions: a handler, the topic and group it serves, and how."""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from partition import Order
from streams.context import Context
from streams.errors import SettingsError
from streams.retry import Retry
from streams.topic import Start, Topic, check_name

MAX_CONCURRENCY = 10_000


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """One group of one topic in this app."""

    topic: Topic[Any]
    group: str
    handler: Callable[..., Awaitable[Any]]
    wants_context: bool
    start: Start
    order: Order
    concurrency: int
    retry: Retry

    @property
    def pair(self) -> tuple[str, str]:
        """(group, topic): unique in an app."""
        return self.group, self.topic.name


def subscription(
    topic: Topic[Any],
    handler: Callable[..., Awaitable[Any]],
    *,
    group: str,
    start: Start,
    order: Order,
    concurrency: int,
    retry: Retry,
) -> Subscription:
    """A checked subscription.

    Raises:
        SettingsError, InvalidName: an option that cannot be, or a function that cannot be a handler.
    """
    check_name("group", group)
    name = f"handler {getattr(handler, '__qualname__', handler)!r}"
    for option, value, choices in (("start", start, get_args(Start)), ("order", order, get_args(Order))):
        if value not in choices:
            raise SettingsError(f"{name}: {option}={value!r} is not one of {', '.join(map(repr, choices))}")
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or not 1 <= concurrency <= MAX_CONCURRENCY:
        raise SettingsError(f"{name}: concurrency={concurrency!r} is not a number from 1 to {MAX_CONCURRENCY}")
    if not isinstance(retry, Retry):
        raise SettingsError(f"{name}: retry= takes a Retry(attempts=…), not {type(retry).__name__}")
    return Subscription(
        topic=topic,
        group=group,
        handler=handler,
        wants_context=_wants_context(handler, name),
        start=start,
        order=order,
        concurrency=concurrency,
        retry=retry,
    )


def _wants_context(handler: Callable[..., Any], name: str) -> bool:
    """Whether the second parameter is for the context: required, named `ctx`, or annotated so."""
    inner: Any = handler
    while isinstance(inner, partial):
        inner = inner.func
    # An object with an async __call__ is a handler too.
    if not (inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)):
        raise SettingsError(f"{name} is not an async function; write `async def` (plain functions come later)")
    parameters = list(inspect.signature(handler).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if not positional and not variadic:
        raise SettingsError(f"{name} takes no parameter; its first one gets the payload")
    for parameter in parameters:
        further = parameter not in positional[:2] and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        )
        if further and parameter.default is parameter.empty:
            raise SettingsError(
                f"{name}: the parameter {parameter.name!r} needs a default; a handler gets payload and context"
            )
    if len(positional) < 2:
        return False
    second = positional[1]
    return second.default is second.empty or second.name == "ctx" or _is_context(second.annotation, inner)


def _is_context(annotation: Any, handler: Any) -> bool:
    """Whether an annotation says `Context`, or `Context | None`; as a string it is looked up where it was written."""
    if isinstance(annotation, str):
        try:
            return _is_context(eval(annotation, _globals(handler)), handler)
        except Exception:  # Imported for the type checker only, say.
            return annotation.removesuffix("| None").strip().rpartition(".")[2] == "Context"
    if get_origin(annotation) in (Union, UnionType):
        return any(one is Context for one in get_args(annotation))
    return annotation is Context


def _globals(handler: Any) -> dict[str, Any]:
    found: dict[str, Any] = getattr(inspect.unwrap(handler), "__globals__", None) or type(handler).__call__.__globals__
    return found

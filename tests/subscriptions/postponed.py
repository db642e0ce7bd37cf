"""Handlers in a module whose annotations are strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams import Context as Renamed

if TYPE_CHECKING:
    from contextvars import Context as OtherContext

    from streams import Context


async def annotated(number: int, c: Renamed | None = None) -> None: ...
async def in_quotes(number: int, c: "Renamed | None" = None) -> None: ...  # noqa: UP037 - as some people write it
async def for_the_type_checker(number: int, c: Context | None = None) -> None: ...
async def other(number: int, c: OtherContext | None = None) -> None: ...

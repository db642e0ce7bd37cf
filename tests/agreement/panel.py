"""All stores at once: each is asked the same, and all have to say the same."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from reprlib import Repr
from typing import Any

import msgspec
from anyio.from_thread import BlockingPortal

from streams.errors import StreamsError
from streams.stores.protocol import Store
from tests.agreement.contender import Contender
from tests.conformance.clock import Clock

shortened = Repr()
shortened.maxother = shortened.maxstring = 300


def differences(one: Any, other: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """Where two answers differ, down to the smallest part, and what is there in each."""
    if isinstance(one, msgspec.Struct) and isinstance(other, msgspec.Struct):
        one, other = msgspec.structs.asdict(one), msgspec.structs.asdict(other)
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple):
        names = getattr(one, "_fields", range(max(len(one), len(other))))
        one, other = dict(zip(names, one, strict=False)), dict(zip(names, other, strict=False))
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            yield from differences(one.get(name, "nothing"), other.get(name, "nothing"), f"{where}[{name}]")
    elif one != other:
        yield where, shortened.repr(one), shortened.repr(other)


class Panel:
    """The stores under one clock, asked from a thread that has no event loop."""

    def __init__(
        self, makers: dict[str, Callable[[Path, Clock], Store]], clock: Clock, folder: Path, portal: BlockingPortal
    ) -> None:
        self._portal = portal
        self._contenders = [Contender(name, make(folder, clock)) for name, make in makers.items()]

    def open(self) -> None:
        self._portal.call(self._each, Contender.open)

    def close(self) -> None:
        self._portal.call(self._each, Contender.close)

    def ask(self, question: Callable[[Contender], Awaitable[Any]]) -> Any:
        """The answer of all, or the error of all, as its type."""
        answers = self._portal.call(self._each, question)
        (first, expected), *others = answers
        for name, answer in others:
            found = "\n".join(f"  {where or 'the answer'}: {a}, {b}" for where, a, b in differences(expected, answer))
            assert not found, f"{first} and {name} differ in\n{found}"
        return expected

    async def _each(self, question: Callable[[Contender], Awaitable[Any]]) -> list[tuple[str, Any]]:
        answers: list[tuple[str, Any]] = []
        for one in self._contenders:
            try:
                answers.append((one.name, await question(one)))
            except StreamsError as error:
                answers.append((one.name, type(error)))
            one.turn()
        return answers

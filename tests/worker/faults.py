"""A store around a real one whose verbs fail, or wait, when a test says so; it also remembers its calls."""

import inspect
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import anyio

from streams.errors import StoreUnavailable
from streams.stores.protocol import Store

EVER = 1 << 30


@dataclass
class Fault:
    """What a verb raises instead of its answer, before or after its effect, and how often it still does so."""

    error: Exception
    after: bool
    times: int


class Gate:
    """Where calls of a verb wait, before their effect, until it is opened."""

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self._open = anyio.Event()

    def open(self) -> None:
        self._open.set()

    async def pass_through(self) -> None:
        self.reached.set()
        await self._open.wait()


class Faults:
    """What goes wrong with the verbs of a database, whichever handle is used."""

    def __init__(self) -> None:
        self.calls: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self.on_call: Callable[[str], None] = lambda verb: None
        self.failed = 0
        self._faults: dict[str, Fault] = {}
        self._gates: dict[str, Gate] = {}

    def fail(self, *verbs: str, error: Exception | None = None, after: bool = False, times: int = 1) -> None:
        """Let the next calls of each verb fail."""
        for verb in verbs:
            self._faults[verb] = Fault(error or StoreUnavailable("the database is away"), after, times)

    def heal(self) -> None:
        """Let nothing fail any more."""
        self._faults.clear()

    def hold(self, verb: str) -> Gate:
        """Let calls of a verb wait at a gate."""
        gate = self._gates[verb] = Gate()
        return gate

    async def call(self, verb: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        self.calls[verb].append(args)
        self.on_call(verb)
        if (gate := self._gates.get(verb)) is not None:
            await gate.pass_through()
        fault = self._take(verb)
        if fault is not None and not fault.after:
            raise fault.error
        answer = await function(*args, **named)
        if fault is not None:
            raise fault.error
        return answer

    def _take(self, verb: str) -> Fault | None:
        fault = self._faults.get(verb)
        if fault is None or fault.times == 0:
            return None
        fault.times -= 1
        self.failed += 1
        return fault


class _FaultyStore:
    """Every verb of the store, by way of the faults; a sibling has the same ones."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self._store = store
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def verb(*args: Any, **named: Any) -> Any:
            return await self._faults.call(name, found, *args, **named)

        return verb

    def sibling(self, *, bound_seconds: float | None = None) -> Store:
        return faulty(self._store.sibling(bound_seconds=bound_seconds), self._faults)


def faulty(store: Store, faults: Faults) -> Store:
    """The store, going wrong as the faults say."""
    return cast(Store, _FaultyStore(store, faults))

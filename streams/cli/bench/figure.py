"""What comes out: figures, and the targets that some of them have."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from streams.errors import StreamsError


class BenchFailed(StreamsError):
    """A measurement could not be made."""


class Target(msgspec.Struct, frozen=True):
    """What a figure is to be. `goal` is what it would better be."""

    word: Literal["at least", "at most"]
    bound: float
    goal: float | None = None

    def met(self, value: float) -> bool:
        """Whether a figure is what it is to be."""
        return value >= self.bound if self.word == "at least" else value <= self.bound


class Figure(msgspec.Struct, frozen=True):
    """One figure. A value of None could not be measured on this machine."""

    name: str
    value: float | None
    unit: str
    target: Target | None = None

    @property
    def met(self) -> bool | None:
        """None: there is no target, or no value."""
        return None if self.target is None or self.value is None else self.target.met(self.value)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of them do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]

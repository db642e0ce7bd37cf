"""What may never happen, looked at whenever something happens."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from streams.stores.rows import GroupStatus, Settlement


class Violation(AssertionError):
    """A guarantee was broken."""


@dataclass(eq=False)
class Run:
    """One attempt of a handler on a node.

    `excused` while guarantee 6 names it as an exception. A `stubborn` one swallows its cancellation: other nodes cannot
    know of it, its own has to keep the key closed.
    """

    node: str
    key: str
    number: int
    excused: Callable[[], bool]
    stubborn: bool = False

    def may_overlap(self, other: "Run") -> bool:
        """Whether the guarantees allow both at once."""
        return self.excused() or other.excused() or (self.stubborn and self.node != other.node)


@dataclass
class Checker:
    """Starts and ends of handlers, commits and positions, as they happen."""

    published: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    handled: dict[tuple[str, str], set[int]] = field(default_factory=lambda: defaultdict(set))
    open: dict[tuple[str, str], list[Run]] = field(default_factory=lambda: defaultdict(list))
    positions: dict[tuple[str, str, int], int] = field(default_factory=dict)
    starts: int = 0
    violations: list[str] = field(default_factory=list)

    def found(self, violation: str) -> None:
        """Note a violation: raised here it would only be a failed attempt, or a loop that is started again."""
        self.violations.append(violation)

    def raise_what_was_found(self) -> None:
        """End the run at the first violation."""
        if self.violations:
            raise Violation(self.violations[0])

    def started(self, group: str, run: Run) -> None:
        """A handler starts: every earlier record of its key was handled, and no other handler of it is under way."""
        self.starts += 1
        place = group, run.key
        missing = [n for n in self.published[run.key] if n < run.number and n not in self.handled[place]]
        if missing:
            self.found(f"{group}: {run.key}: {run.number} starts on {run.node} before {missing[0]} was handled")
        for other in self.open[place]:
            if not other.may_overlap(run):
                self.found(f"{group}: {run.key}: {run.number} starts on {run.node} while {other} is under way")
        self.open[place].append(run)

    def ended(self, group: str, run: Run, *, handled: bool) -> None:
        """A handler is over: it returned, or it failed or was cancelled."""
        if handled:
            self.handled[group, run.key].add(run.number)
        self.open[group, run.key].remove(run)

    def committed(self, settlement: Settlement, current: tuple[str | None, int]) -> None:
        """A settlement was applied, under the lease as it stands, and the position did not go back."""
        lease = settlement.lease
        if (lease.member, lease.epoch) != current:
            self.found(f"{lease} committed, but the lease is {current}")
        place = lease.group, lease.topic, lease.partition
        if settlement.progress.position < self.positions.get(place, 0):
            self.found(f"{place}: the position went back to {settlement.progress.position}")
        self.positions[place] = settlement.progress.position

    def finished(self, groups: list[GroupStatus], doubled: dict[str, list[int]]) -> None:
        """At the end everything was handled by every group, and its effects are there once and in order."""
        self.raise_what_was_found()
        for status in groups:
            if status.topic == "numbers":
                for key, numbers in self.published.items():
                    lost = set(numbers) - self.handled[status.group, key]
                    if lost:
                        raise Violation(f"{status.group}: {key}: {sorted(lost)} were never handled")
        for key, numbers in self.published.items():
            if doubled.get(key, []) != [n * 2 for n in numbers]:
                raise Violation(f"{key}: published along with settling: {doubled.get(key)} instead of twice {numbers}")

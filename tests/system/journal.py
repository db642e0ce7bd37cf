"""What the handlers wrote down, and whether it could have happened under the guarantees."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType


@dataclass
class Run:
    """One attempt of a handler. `ended` is when it returned, `over` when it returned or was cancelled."""

    started: float
    pid: int
    epoch: int
    partition: int
    group: str
    key: str
    number: int
    ended: float | None = None
    over: float | None = None


@dataclass
class Journal:
    """All runs, by group and key, in the order of their starts."""

    runs: dict[tuple[str, str], list[Run]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def read(cls, folder: Path) -> "Journal":
        """Read the files of all processes."""
        journal = cls()
        for file in folder.glob("*.log"):
            open_runs: dict[tuple[str, str, int], Run] = {}
            for line in file.read_text().rpartition("\n")[0].splitlines():  # The last may be half written yet.
                what, at, pid, epoch, partition, group, key, number = line.split(" ")
                if what == "S":
                    run = Run(float(at), int(pid), int(epoch), int(partition), group, key, int(number))
                    journal.runs[group, key].append(run)
                    open_runs[group, key, int(number)] = run
                else:
                    run = open_runs.pop((group, key, int(number)))
                    run.over = float(at)
                    run.ended = run.over if what == "E" else None
        for runs in journal.runs.values():
            runs.sort(key=lambda run: run.started)
        return journal

    def all(self, group: str = "first") -> list[Run]:
        """The runs of a group in the order of their starts."""
        return sorted(
            (run for (g, _), runs in self.runs.items() if g == group for run in runs), key=lambda r: r.started
        )

    def handled(self, group: str = "first") -> set[tuple[str, int]]:
        """Every (key, number) that a handler of the group has ended."""
        return {(run.key, run.number) for run in self.all(group) if run.ended is not None}

    def violations(
        self,
        published: Mapping[str, Iterable[int]],
        *,
        groups: Iterable[str] = ("first",),
        ended: Mapping[int, Sequence[float]] = MappingProxyType({}),
    ) -> list[str]:
        """What the guarantees exclude: lost records, disorder, and two handlers of a key at once.

        `ended` says when processes were killed or stopped: from then on their open handlers do not count.
        """
        found = []
        for group in groups:
            for key, numbers in published.items():
                order = {number: place for place, number in enumerate(numbers)}
                runs = self.runs.get((group, key), [])
                lost = order.keys() - {run.number for run in runs if run.ended is not None}
                if lost:
                    found.append(f"{group}: key {key} lost {sorted(lost)[:5]}")
                found += _disorder(group, runs, order)
                found += _overlaps(group, runs, ended)
        return found


def _disorder(group: str, runs: list[Run], order: Mapping[int, int]) -> list[str]:
    """Starts for which an earlier record of the key had not been handled before."""
    found = []
    ends = sorted((run.ended, order[run.number]) for run in runs if run.ended is not None)
    done: set[int] = set()
    reached = 0
    position = 0
    for run in runs:
        while position < len(ends) and ends[position][0] <= run.started:
            done.add(ends[position][1])
            position += 1
        while reached in done:
            reached += 1
        if order[run.number] > reached:
            found.append(f"{group}: key {run.key}: {run.number} started before {reached} was handled: {run}")
    return found


def _overlaps(group: str, runs: list[Run], ended: Mapping[int, Sequence[float]]) -> list[str]:
    """Runs that were under way when another of their key started."""
    found = []
    for place, run in enumerate(runs):
        until = run.over if run.over is not None else float("inf")
        until = min([until, *(at for at in ended.get(run.pid, ()) if at >= run.started)])
        for other in runs[place + 1 :]:
            if other.started >= until:
                break
            found.append(f"{group}: key {run.key}: two at once: {run} and {other}")
    return found

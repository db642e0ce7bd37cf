"""Was anything lost, and did every key run in order? Judged by the handlers' own notes, and nothing else.

The runs of a key are laid out by the time they started, over all processes, for all share one clock. Then:

- The first is the key's first record. Within an epoch each run is the next record after the one before it, and under
  one worker. Nothing is skipped, nothing repeated.
- A new epoch begins where the unsettled tail may begin: not beyond the record that has to come next, so nothing was
  skipped; and not before the record with which the epoch before began, since all before that was settled by then. From
  there it goes on record by record, so a tail is repeated in order or not at all. A record whose run did not return is
  not settled, so nothing comes next but itself.
- No run starts before every earlier run of its key has ended. One that nobody saw end lasted until its process was
  dead. This finds two members that run one key at once, whatever they run of it.
- An epoch belongs to one worker, and once a run of a partition has started under a higher epoch, none starts under a
  lower one, of whatever key. This finds the member that goes on after its lease has passed on.

A run that breaks a rule is out of order. A record is lost when no run of it returned.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from streams.cli.demo.notes import Run


class Fault(NamedTuple):
    """A run that is out of order, and why."""

    run: Run
    why: str

    def __str__(self) -> str:
        run = self.run
        return (
            f"{run.key}: number {run.number} in {run.worker}, partition {run.partition}, epoch {run.epoch}: {self.why}"
        )


class Verdict(NamedTuple):
    """`handled` and `lost` count records, `duplicates` the runs beyond each record's first."""

    handled: int
    duplicates: int
    lost: int
    faults: tuple[Fault, ...]

    @property
    def good(self) -> bool:
        """Nothing lost, nothing out of order."""
        return not self.lost and not self.faults


class _Partition:
    """The epochs of a partition, as its runs come by."""

    def __init__(self) -> None:
        self._epoch = 0
        self._workers: dict[int, str] = {}

    def judge(self, run: Run) -> str | None:
        worker = self._workers.setdefault(run.epoch, run.worker)
        if worker != run.worker:
            return f"the epoch is that of {worker}"
        if run.epoch < self._epoch:
            return f"it started after epoch {self._epoch} had begun"
        self._epoch = run.epoch
        return None


class _Key:
    """The runs of a key, as they come by. `numbers` are those published under it, in order."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self._places = {number: place for place, number in enumerate(numbers)}
        self._last: Run | None = None
        self._last_place = 0
        self._first_place = 0  # with which the last run's epoch began
        self._busy_until = float("-inf")

    def judge(self, run: Run, ended: float) -> str | None:
        place = self._places.get(run.number)
        if place is None:
            return "it was not published under this key"
        why = self._why(run, place)
        if self._last is None or run.epoch != self._last.epoch:
            self._first_place = place
        self._last, self._last_place = run, place
        self._busy_until = max(self._busy_until, ended)
        return why

    def _why(self, run: Run, place: int) -> str | None:
        last = self._last
        if last is None:
            return None if place == 0 else f"it started first, but {place} of its key come before it"
        if run.partition != last.partition:
            return f"the key was in partition {last.partition} before"
        if run.started < self._busy_until:
            return "it started while an earlier run of its key had not ended"
        due = self._last_place + last.done
        if run.epoch == last.epoch and place != due:
            return f"after number {last.number} of the same epoch it is not the next"
        if run.epoch > last.epoch and place > due:
            return f"an epoch began with it, but {place - due} of its key had to come before it"
        if run.epoch > last.epoch and place < self._first_place:
            return "an epoch began with it, but it was settled before the last epoch began"
        return None


def judge(published: Mapping[str, Sequence[int]], runs: Iterable[Run], deaths: Mapping[str, float]) -> Verdict:
    """The verdict on all runs of all workers.

    `published` holds each key's numbers in the order in which they were published; no number is published twice.
    `deaths` says from when on a killed worker was surely dead.
    """
    ordered = sorted(runs, key=attrgetter("started"))
    keys = {key: _Key(numbers) for key, numbers in published.items()}
    partitions: dict[int, _Partition] = {}
    faults = []
    for run in ordered:
        ended = deaths.get(run.worker, float("inf")) if run.ended is None else run.ended
        key = keys.setdefault(run.key, _Key(()))
        whys = partitions.setdefault(run.partition, _Partition()).judge(run), key.judge(run, ended)
        if why := whys[0] or whys[1]:
            faults.append(Fault(run, why))
    everything = {number for numbers in published.values() for number in numbers}
    handled = len(everything & {run.number for run in ordered if run.done})
    begun = len({run.number for run in ordered})
    return Verdict(handled, len(ordered) - begun, len(everything) - handled, tuple(faults))


def recovery_seconds(
    runs: Iterable[Run], *, killed_at: float, victims: Iterable[str], partitions: Iterable[int]
) -> float | None:
    """From the kill to the first start, by somebody else, in the last of the victims' partitions that had work."""
    victims = set(victims)
    firsts: dict[int, float] = {}
    for run in runs:
        if run.started > killed_at and run.worker not in victims:
            firsts[run.partition] = min(run.started, firsts.get(run.partition, run.started))
    return max((firsts[p] - killed_at for p in set(partitions) if p in firsts), default=None)

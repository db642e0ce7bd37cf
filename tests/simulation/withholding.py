"""What a store does whose slots somebody else may hold: it withholds records, and says so again when asked again."""

import random
from dataclasses import replace

import msgspec

from partition import Lease, Range
from partition.ranges import cut, union
from streams.stores.rows import Settlement

WITHHELD_RATE = 0.3


class Withholding:
    """Chooses which records of a settlement stay unsettled."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"withholding {seed}")
        self.active = self._random.random() < 0.5
        """Whether this database withholds at all."""
        self.rate = WITHHELD_RATE
        self._chosen: dict[tuple[Lease, int], tuple[int, ...]] = {}

    def choose(self, settlement: Settlement) -> tuple[int, ...]:
        """The offsets that are withheld: as the last time, if the settlement comes again."""
        place = settlement.lease, settlement.progress.number
        if place not in self._chosen:
            taken = [cause for cause in dict.fromkeys(settlement.causes) if self._random.random() < self.rate]
            self._chosen[place] = tuple(sorted(taken)) if self.active else ()
        return self._chosen[place]

    def without(self, settlement: Settlement, withheld: tuple[int, ...]) -> Settlement:
        """What is left of a settlement."""
        if not withheld:
            return settlement
        progress = settlement.progress
        low = withheld[0]
        settled = [*progress.settled]
        if low <= progress.position:
            settled.append(Range(low, progress.position))
        position = min(progress.position, low - 1)
        ranges = cut(union(settled, position), [Range(offset, offset) for offset in withheld])
        kept = [
            (publication, cause)
            for publication, cause in zip(settlement.publish, settlement.causes, strict=True)
            if cause not in withheld
        ]
        return msgspec.structs.replace(
            settlement,
            progress=replace(progress, position=position, settled=tuple(ranges)),
            publish=tuple(publication for publication, _ in kept),
            causes=tuple(cause for _, cause in kept),
        )

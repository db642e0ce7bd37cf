"""What holds of every database after every step, whatever the stores agree on."""

from streams.stores.rows import Record
from tests.agreement.contender import Listing

Place = tuple[str, str, int]


class Watch:
    """Compares each listing with those before it."""

    def __init__(self) -> None:
        self._logs: dict[tuple[str, int], list[Record]] = {}
        self._owners: dict[Place, tuple[str | None, int]] = {}
        self._positions: dict[Place, int] = {}

    def look(self, listing: Listing) -> None:
        for (topic, partition), records in listing.logs.items():
            self._log(topic, partition, records)
        for lease in listing.view.leases:
            self._epoch((lease.group, lease.topic, lease.partition), lease.member, lease.epoch)
        for group in listing.groups:
            for one in group.partitions:
                self._position((group.group, group.topic, one.partition), one.position)
                assert 0 <= one.lag <= max(0, one.end - one.position), one
            assert group.lag == sum(one.lag for one in group.partitions)
            assert group.parked == sum(one.parked for one in group.partitions)
        places = [(letter.group, letter.topic, letter.partition, letter.offset) for letter in listing.dead]
        assert len(places) == len(set(places)), "a record is dead twice"

    def _log(self, topic: str, partition: int, records: list[Record]) -> None:
        assert [record.offset for record in records] == list(range(1, len(records) + 1)), "offsets are dense"
        before = self._logs.get((topic, partition), [])
        assert records[: len(before)] == before, "what is in the log never changes"
        self._logs[topic, partition] = records

    def _epoch(self, place: Place, owner: str | None, epoch: int) -> None:
        before, last = self._owners.get(place, (None, 0))
        assert epoch >= last, f"{place}: the epoch fell"
        assert epoch > last or owner in (None, before), f"{place}: {owner} holds it under the epoch of {before}"
        self._owners[place] = owner, epoch

    def _position(self, place: Place, position: int) -> None:
        assert position >= self._positions.get(place, 0), f"{place}: the position went back"
        self._positions[place] = position

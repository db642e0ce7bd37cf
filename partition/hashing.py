"""Where a key lives: its slot, and the partition that the slot belongs to.

A partition is a range of slots, not a remainder of the hash, so that it can later be split in
place: when a topic goes from 8 to 16 partitions, the keys of partition 3 go to partitions 6 and
7 and to no other. What this module answers is stored with every record; it never changes.
"""

from functools import lru_cache
from hashlib import sha256

SLOTS = 4096
"""How many slots there are, and so the most partitions a topic can have."""

REMEMBERED = 16_384
"""So many keys' slots are kept: keys come again and again, and a hash takes ten times as long as a look."""


@lru_cache(REMEMBERED)
def slot_of(key: str) -> int:
    """The slot of a key, from 0 to 4,095.

    The first 4 bytes of SHA-256 of its UTF-8, big-endian, modulo 4,096. A lone surrogate has no
    UTF-8: `UnicodeEncodeError`, which is a `ValueError`.
    """
    return int.from_bytes(sha256(key.encode()).digest()[:4], "big") % SLOTS


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key, from 0, in a topic of `partitions`.

    `ValueError` unless those are 1 to 4,096.
    """
    _check_partitions(partitions)
    return slot_of(key) * partitions // SLOTS


def slots_of(partition: int, partitions: int) -> range:
    """The slots of a partition, never empty: the inverse of `partition_of`.

    The ranges of all partitions are disjoint, cover every slot in order, and differ in length
    by at most one. `ValueError` for a partition that a topic of `partitions` does not have.
    """
    _check_partitions(partitions)
    if not 0 <= partition < partitions:
        raise ValueError(f"there is no partition {partition} among {partitions}, counted from 0")
    return range(_first_slot(partition, partitions), _first_slot(partition + 1, partitions))


def _first_slot(partition: int, partitions: int) -> int:
    return -(-partition * SLOTS // partitions)  # Rounded up: `partition_of` rounds down.


def _check_partitions(partitions: int) -> None:
    if not 1 <= partitions <= SLOTS:
        raise ValueError(f"a topic has 1 to {SLOTS:,} partitions, not {partitions:,}")

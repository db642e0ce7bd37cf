"""Where keys live, once and for ever: what every language that publishes has to agree on."""

from partition.hashing import SLOTS

SLOTS_OF_KEYS = [("customer-7", 1534), ("", 1090), ("ключ", 2610), ("🔑", 1313)]

PARTITIONS_OF_KEYS = [
    ("customer-7", 1, 0),
    ("customer-7", 3, 1),
    ("customer-7", 16, 5),
    ("customer-7", SLOTS, 1534),
    ("", 16, 4),
    ("ключ", 16, 10),
    ("🔑", 16, 5),
]
"""Key, number of partitions, partition."""

"""The decisions of stream processing as plain arithmetic: values and `now` in, new values out.

Nothing here awaits, reads a clock, draws a random number or imports anything outside the
standard library and itself. What a record's way asks, in this order: `hashing` (which
partition?), `membership` (who is alive?), `assignment` (who should hold it?), `lease` (who
does, and for how long?), `window` (what may run next, and what is settled?). `ranges` is how
many offsets are said in few words.
"""

from partition.assignment import assign, weight
from partition.hashing import SLOTS, partition_of, slot_of, slots_of
from partition.lease import Lease, Rhythm
from partition.membership import Beat, Judgement, Sighting, judge
from partition.ranges import Range, union
from partition.window import Lane, Order, Progress, Window

__all__ = [
    "SLOTS",
    "Beat",
    "Judgement",
    "Lane",
    "Lease",
    "Order",
    "Progress",
    "Range",
    "Rhythm",
    "Sighting",
    "Window",
    "assign",
    "judge",
    "partition_of",
    "slot_of",
    "slots_of",
    "union",
    "weight",
]

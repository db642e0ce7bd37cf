"""Which member should hold which partition: balanced, with the fewest moves from who does now.

Every member computes this for itself from what it has read, and only asks for what the answer
gives it: an assignment is a wish, the lease decides. Views may differ for a moment. What
matters is that the wishes of any sequence of views lead to balance without detours.

*Shares.* Of P partitions and N members each member gets P // N, the floor, and P % N of them
get one more, a ceiling. The ceilings go to owners that are above the floor already, those with
most first; a tie is broken by a hash of subscription and member, so that it is not the same
member that wins it in every subscription.

*Why that is the fewest moves.* Let `excess` be what owners hold above the floor, in all.
Whatever the answer, all of it must move but for one partition under each ceiling that stands on
an owner above the floor: `excess - min(ceilings, owners above the floor)`. The rule reaches
that bound. And it goes on reaching it midway: a release by an owner above its share lowers the
bound by exactly one, taking a free partition leaves it as it is. So it does not matter in which
order owners release, or who looks in between.

*What does not count.* How many partitions a member gets does not depend on which handlers run:
only the owner itself knows that, and owners that each believed the other should give way would
wait for ever. It only chooses which ones the owner sheds.

*Free partitions* find members by rendezvous weight (Thaler and Ravishankar, 1998), heaviest
pair first, under the bound of the shares. Weights alone gave 0 to 9 of 16 partitions to one
member.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from hashlib import sha256

WEIGHTS_KEPT = 1 << 16
"""How many weights are remembered: about 15 MB at most."""

NO_PARTITION = 0xFFFF_FFFF
"""Stands for the subscription as a whole when two members of equal count are told apart."""


@lru_cache(maxsize=WEIGHTS_KEPT)
def weight(subscription: str, partition: int, member: str) -> int:
    """How strongly a partition leans to a member: 64 bits, the same in every process and version.

    The first 8 bytes, big-endian, of SHA-256 over the length of the subscription in UTF-8 (4
    bytes, big-endian), the subscription, the partition (4 bytes) and the member, so that no two
    triples are the same bytes.
    """
    name = subscription.encode()
    words = (len(name).to_bytes(4, "big"), name, partition.to_bytes(4, "big"), member.encode())
    return int.from_bytes(sha256(b"".join(words)).digest()[:8], "big")


def assign(
    subscription: str,
    partitions: int,
    members: Collection[str],
    owners: Mapping[int, str],
    *,
    busy: Collection[int] = (),
) -> dict[int, str]:
    """The member that should hold each partition, in order of partition; `{}` without members.

    `members` are those that live, serve the subscription and are willing to hold partitions.
    `owners` says who holds what; a partition whose owner is not among `members` is free, and
    one that the topic does not have is ignored. `busy` are the partitions with a running
    handler, as far as the caller knows: an owner sheds others first.

    Counts differ by at most one, no more partitions leave an owner than that takes, and the
    order of the inputs does not matter.
    """
    if not members:
        return {}
    held = _held(partitions, members, owners)
    floor, ceilings = divmod(partitions, len(held))
    shares = _shares(subscription, held, floor, ceilings)
    running = frozenset(busy)
    wanted: dict[int, str] = {}
    for member, own in held.items():
        kept = _kept(subscription, member, own, shares[member], running)
        wanted.update(dict.fromkeys(kept, member))
    if len(wanted) < partitions:
        lacking = {member: floor - len(own) for member, own in held.items() if len(own) < floor}
        _hand_out(subscription, partitions, lacking, wanted)
        level = {member: 1 for member, own in held.items() if len(own) <= floor}
        _hand_out(subscription, partitions, level, wanted)
    return dict(sorted(wanted.items()))


def _held(partitions: int, members: Iterable[str], owners: Mapping[int, str]) -> dict[str, list[int]]:
    """What each member holds now; in order of name, which so decides if weights are ever equal."""
    held: dict[str, list[int]] = {member: [] for member in sorted(members)}
    for partition, owner in owners.items():
        if owner in held and 0 <= partition < partitions:
            held[owner].append(partition)
    return held


def _shares(subscription: str, held: Mapping[str, list[int]], floor: int, ceilings: int) -> dict[str, int]:
    """How many partitions each member may keep: the floor, or one more under a ceiling."""
    above = [member for member, own in held.items() if len(own) > floor]
    if len(above) > ceilings:
        above.sort(key=lambda m: (len(held[m]), weight(subscription, NO_PARTITION, m)), reverse=True)
    return dict.fromkeys(held, floor) | dict.fromkeys(above[:ceilings], floor + 1)


def _kept(subscription: str, member: str, own: list[int], share: int, running: frozenset[int]) -> list[int]:
    """What an owner keeps: first what has a running handler, then what it weighs most."""
    if len(own) <= share:
        return own
    own.sort(key=lambda p: (p in running, weight(subscription, p, member), p), reverse=True)
    return own[:share]


def _hand_out(subscription: str, partitions: int, room: dict[str, int], wanted: dict[int, str]) -> None:
    """Give free partitions to members with room, the heaviest pair first, until one runs out.

    This is the stable matching of the two sides, which is unique, since both rank a pair by its
    one weight.
    """
    free = [partition for partition in range(partitions) if partition not in wanted]
    pairs = [(weight(subscription, p, member), p, member) for member in room for p in free]
    pairs.sort(reverse=True)
    for _, partition, member in pairs:
        if room[member] and partition not in wanted:
            wanted[partition] = member
            room[member] -= 1

"""Assignments are balanced, move as little as possible, and are the same for everybody who asks."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from hashlib import sha256
from itertools import chain, combinations, permutations, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition.assignment import assign, weight

STEADY = settings(derandomize=True, deadline=None, max_examples=100)

NAME = "billing orders"
NAMES = [f"worker-{number}" for number in range(1, 10)]


def counts_of(assignment: Mapping[int, str], members: Collection[str]) -> list[int]:
    counted = Counter(assignment.values())
    assert set(counted) <= set(members)
    return [counted[member] for member in members]


def moved(owners: Mapping[int, str], wanted: Mapping[int, str], members: Collection[str]) -> set[int]:
    """The partitions that a live owner has to give up."""
    return {p for p, owner in owners.items() if owner in members and wanted[p] != owner}


def check_balance(wanted: Mapping[int, str], partitions: int, members: Collection[str]) -> None:
    assert list(wanted) == list(range(partitions))
    counts = counts_of(wanted, members)
    assert max(counts) - min(counts) <= 1


def least_moves(owners: Mapping[int, str], partitions: int, members: Collection[str]) -> int:
    """The fewest moves to balance, by trying every choice of who gets one more than the floor."""
    floor, ceilings = divmod(partitions, len(members))
    counts = counts_of({p: m for p, m in owners.items() if m in members}, members)
    return min(
        sum(max(0, count - floor - (index in chosen)) for index, count in enumerate(counts))
        for chosen in combinations(range(len(counts)), ceilings)
    )


# Weights.


def test_a_weight_never_changes() -> None:
    assert weight("billing orders", 0, "worker-1") == 0x194402B45D3CA4C9
    assert weight("billing orders", 4095, "worker-1") == 0x6394E5BD5379362F
    assert weight("счёт", 7, "🔑") == 0x26D2FA81770EFF4C
    assert weight("", 0, "") == 0xAF5570F5A1810B7A


def test_a_weight_is_the_first_eight_bytes_of_a_hash_over_all_three() -> None:
    encoded = b"\x00\x00\x00\x0ebilling orders" + b"\x00\x00\x01\x00" + b"worker-1"
    assert weight("billing orders", 256, "worker-1") == int(sha256(encoded).hexdigest()[:16], 16)


def test_what_is_between_the_three_cannot_be_mistaken() -> None:
    triples = [("ab", 1, "c"), ("a", 1, "bc"), ("ab", 1, ""), ("", 1, "abc"), ("ab", 2, "c")]
    triples += [("a", 0, "\x00\x00\x00\x00b"), ("a\x00\x00\x00\x00", 0, "b")]
    assert len({weight(*triple) for triple in triples}) == len(triples)


def test_weights_are_remembered_up_to_a_bound() -> None:
    assert weight.cache_info().maxsize == 65_536


# What is given to whom.


def test_without_members_nothing_is_assigned() -> None:
    assert assign(NAME, 16, [], {0: "worker-1"}) == {}


def test_a_member_alone_gets_everything() -> None:
    assert assign(NAME, 4, ["a"], {}) == {0: "a", 1: "a", 2: "a", 3: "a"}


def test_an_assignment_never_changes() -> None:
    members = ["a", "b", "c"]
    fresh = assign(NAME, 16, members, {})
    assert "".join(fresh.values()) == "bbbacbbcccaacaaa"
    joined = assign(NAME, 16, [*members, "d"], fresh)
    assert "".join(joined.values()) == "bdbdcbbccdaacdaa"
    left = assign(NAME, 16, ["a", "c", "d"], joined)
    assert "".join(left.values()) == "ddcdcadccdaacdaa"


def heaviest_first(partitions: int, members: Collection[str]) -> dict[int, str]:
    """How free partitions are given out, as plainly as it can be said."""
    floor, ceilings = divmod(partitions, len(members))
    wanted: dict[int, str] = {}
    counted: Counter[str] = Counter()
    while len(wanted) < partitions:
        lacking = [m for m in members if counted[m] < floor]
        free = [p for p in range(partitions) if p not in wanted]
        candidates = lacking or [m for m in members if counted[m] == floor]
        _, partition, member = max((weight(NAME, p, m), p, m) for p in free for m in candidates)
        wanted[partition] = member
        counted[member] += 1
    assert sum(count > floor for count in counted.values()) == ceilings
    return wanted


@pytest.mark.parametrize("partitions", [1, 2, 7, 16, 31])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
def test_free_partitions_go_by_weight_to_members_below_the_floor_then_to_those_at_it(
    partitions: int, count: int
) -> None:
    members = NAMES[:count]
    assert assign(NAME, partitions, members, {}) == heaviest_first(partitions, members)


def test_a_member_below_the_floor_comes_before_a_heavier_one_at_it() -> None:
    for subscription in map(str, range(40)):
        wanted = assign(subscription, 3, ["a", "b"], {0: "a"})
        assert wanted[0] == "a"
        assert "b" in (wanted[1], wanted[2])


def test_owners_keep_what_they_have_when_it_is_balanced() -> None:
    owners = {p: "ab"[p % 2] for p in range(7)}
    assert assign(NAME, 7, ["a", "b"], owners) == owners
    other = {p: "ba"[p % 2] for p in range(7)}
    assert assign(NAME, 7, ["a", "b"], other) == other


def test_a_partition_whose_owner_is_not_a_member_is_free() -> None:
    members = ["a", "b"]
    assert assign(NAME, 8, members, dict.fromkeys(range(8), "dead")) == assign(NAME, 8, members, {})


def test_an_owned_partition_that_the_topic_does_not_have_is_ignored() -> None:
    owners = {0: "a", 1: "b"}
    beyond = {-1: "a", 2: "a", 99: "a"}
    assert assign(NAME, 2, ["a", "b"], owners | beyond) == owners


def test_an_owner_sheds_what_has_no_running_handler_first() -> None:
    owners = dict.fromkeys(range(8), "a")
    for busy in combinations(range(8), 4):
        wanted = assign(NAME, 8, ["a", "b"], owners, busy=busy)
        assert moved(owners, wanted, ["a", "b"]) == set(range(8)) - set(busy)


def test_an_owner_sheds_what_it_weighs_least() -> None:
    owners = dict.fromkeys(range(16), "a")
    lightest = sorted(range(16), key=lambda p: weight(NAME, p, "a"))
    for busy in (range(0), range(16)):
        wanted = assign(NAME, 16, ["a", "b", "c", "d"], owners, busy=busy)
        assert moved(owners, wanted, ["a"]) == set(lightest[:12])
    wanted = assign(NAME, 16, ["a", "b", "c", "d"], owners, busy=lightest[:3])
    assert {p for p in wanted if wanted[p] == "a"} == {*lightest[:3], lightest[-1]}


def test_how_many_a_member_gets_does_not_depend_on_running_handlers() -> None:
    owners = {p: "aaabbbbb"[p] for p in range(8)}
    members = ["a", "b", "c"]
    idle = counts_of(assign(NAME, 8, members, owners), members)
    for busy in chain.from_iterable(combinations(range(8), size) for size in range(9)):
        wanted = assign(NAME, 8, members, owners, busy=busy)
        assert counts_of(wanted, members) == idle


def test_what_an_owner_keeps_does_not_depend_on_the_running_handlers_of_others() -> None:
    owners = {p: "aaaaabbbbb"[p] for p in range(10)}
    members = ["a", "b", "c"]
    for own in chain.from_iterable(combinations(range(5), size) for size in range(6)):
        keeps = {
            tuple(p for p in range(5) if wanted[p] == "a")
            for others in ((), (5, 6), range(5, 10))
            for wanted in [assign(NAME, 10, members, owners, busy=[*own, *others])]
        }
        assert len(keeps) == 1


def test_the_owners_with_most_keep_one_more_when_not_all_can() -> None:
    for subscription in map(str, range(20)):
        owners = {p: "aaabbbbcccccc"[p] for p in range(13)}
        wanted = assign(subscription, 14, "abcdef", owners)
        assert counts_of(wanted, "abcdef") == [2, 3, 3, 2, 2, 2]


def test_a_tie_for_one_more_is_not_won_by_the_same_name_everywhere() -> None:
    owners = {p: "abcd"[p % 4] for p in range(16)}
    members = ["a", "b", "c", "d", "e"]
    winners = Counter(
        member
        for number in range(400)
        for member, count in Counter(assign(f"group-{number}", 16, members, owners).values()).items()
        if count == 4
    )
    assert set(winners) == {"a", "b", "c", "d"}
    assert min(winners.values()) > 60


def test_no_name_gets_one_more_everywhere_when_all_is_free() -> None:
    winners = Counter(
        member
        for number in range(300)
        for member, count in Counter(assign(f"group-{number}", 16, "abc", {}).values()).items()
        if count == 6
    )
    assert sum(winners.values()) == 300
    assert min(winners.values()) > 60


# Every small case.


@cache
def balanced(partitions: int, members: int) -> list[tuple[int, ...]]:
    """Every assignment of partitions to members, by number, whose counts are within one."""
    found = []
    for owner in product(range(members), repeat=partitions):
        counts = [owner.count(member) for member in range(members)]
        if max(counts) - min(counts) <= 1:
            found.append(owner)
    return found


@cache
def fewest(owner: tuple[int, ...], members: int) -> int:
    """The fewest moves from an ownership to any balanced assignment; a negative owner is none."""
    return min(
        sum(now >= 0 and now != then for now, then in zip(owner, wanted, strict=True))
        for wanted in balanced(len(owner), members)
    )


DEAD, NOBODY = -1, -2


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 5, 6])
def test_every_small_assignment_is_balanced_with_the_fewest_moves(partitions: int, count: int) -> None:
    members = NAMES[:count]
    holders = dict(enumerate(members)) | {DEAD: "dead"}
    for owner in product([*range(count), DEAD, NOBODY], repeat=partitions):
        owners = {p: holders[o] for p, o in enumerate(owner) if o != NOBODY}
        wanted = assign(NAME, partitions, members, owners)
        check_balance(wanted, partitions, members)
        # The order of the partitions makes no difference to how many have to move.
        pattern = tuple(sorted(max(o, DEAD) for o in owner))
        assert len(moved(owners, wanted, members)) == fewest(pattern, count)


@pytest.mark.parametrize("partitions", [1, 2, 3, 4])
def test_every_small_assignment_is_the_same_size_of_move_whatever_runs(partitions: int) -> None:
    members = NAMES[:3]
    everything = range(partitions)
    for owner in product([*members, "dead"], repeat=partitions):
        owners = dict(enumerate(owner))
        least = least_moves(owners, partitions, members)
        for busy in chain.from_iterable(combinations(everything, n) for n in everything):
            wanted = assign(NAME, partitions, members, owners, busy=busy)
            check_balance(wanted, partitions, members)
            shed = moved(owners, wanted, members)
            assert len(shed) == least
            for p, q in product(shed, set(everything) - shed):
                if owners[p] == owners[q]:
                    assert (p in busy) <= (q in busy)


# Joins and leaves.


def test_a_chain_of_joins_moves_a_floor_each_and_leaves_move_nothing_else() -> None:
    owners: dict[int, str] = {}
    for count in range(1, 10):
        members = NAMES[:count]
        wanted = assign(NAME, 16, members, owners)
        check_balance(wanted, 16, members)
        expected = 0 if count == 1 else 16 // count
        assert len(moved(owners, wanted, members)) == expected
        assert all(wanted[p] == NAMES[count - 1] for p in moved(owners, wanted, members))
        owners = wanted
    for count in range(8, 0, -1):
        members = NAMES[:count]
        wanted = assign(NAME, 16, members, owners)
        check_balance(wanted, 16, members)
        assert not moved(owners, wanted, members)
        owners = wanted


@pytest.mark.parametrize("count", range(2, 10))
def test_whoever_leaves_only_what_it_held_moves(count: int) -> None:
    members = NAMES[:count]
    owners = assign(NAME, 16, members, {})
    for leaver in members:
        left = [member for member in members if member != leaver]
        wanted = assign(NAME, 16, left, owners)
        check_balance(wanted, 16, left)
        assert {p for p in owners if owners[p] != wanted[p]} == {p for p in owners if owners[p] == leaver}


@STEADY
@given(
    st.integers(1, 64),
    st.lists(st.sets(st.sampled_from(NAMES), min_size=1), min_size=1, max_size=8),
)
def test_any_chain_of_joins_and_leaves_stays_balanced_with_the_fewest_moves(
    partitions: int, fleets: list[set[str]]
) -> None:
    owners: dict[int, str] = {}
    for fleet in fleets:
        wanted = assign(NAME, partitions, fleet, owners)
        check_balance(wanted, partitions, fleet)
        assert len(moved(owners, wanted, fleet)) == least_moves(owners, partitions, fleet)
        assert assign(NAME, partitions, fleet, wanted) == wanted
        owners = wanted


ownerships = st.dictionaries(st.integers(0, 39), st.sampled_from([*NAMES[:6], "dead"]))
fleets = st.sets(st.sampled_from(NAMES), min_size=1)
runnings = st.sets(st.integers(0, 39))


@STEADY
@given(st.integers(1, 40), fleets, ownerships, runnings)
def test_any_ownership_is_balanced_with_the_fewest_moves(
    partitions: int, fleet: set[str], owners: dict[int, str], busy: set[int]
) -> None:
    owners = {p: owner for p, owner in owners.items() if p < partitions}
    wanted = assign(NAME, partitions, fleet, owners, busy=busy)
    check_balance(wanted, partitions, fleet)
    assert len(moved(owners, wanted, fleet)) == least_moves(owners, partitions, fleet)


@STEADY
@given(fleets, ownerships, runnings, st.randoms(use_true_random=False))
def test_the_order_of_the_inputs_does_not_matter(
    fleet: set[str], owners: dict[int, str], busy: set[int], random: Random
) -> None:
    wanted = assign(NAME, 40, sorted(fleet), dict(sorted(owners.items())), busy=sorted(busy))
    again = assign(
        NAME,
        40,
        random.sample(sorted(fleet), len(fleet)),
        dict(random.sample(sorted(owners.items()), len(owners))),
        busy=random.sample(sorted(busy), len(busy)),
    )
    assert list(again.items()) == list(wanted.items())


def test_every_order_of_three_members_gives_the_same_answer() -> None:
    owners = {0: "c", 1: "b", 2: "b", 3: "b"}
    answers = [assign(NAME, 8, order, owners) for order in permutations("abc")]
    assert all(answer == answers[0] for answer in answers)
    assert assign(NAME, 8, ["a", "a", "b", "c", "c"], owners) == answers[0]


def test_the_inputs_are_left_as_they_were() -> None:
    members, owners, busy = ["b", "a"], {3: "a", 2: "a", 1: "a", 0: "gone"}, [2]
    assign(NAME, 4, members, owners, busy=busy)
    assert (members, busy) == (["b", "a"], [2])
    assert list(owners.items()) == [(3, "a"), (2, "a"), (1, "a"), (0, "gone")]


# One step at a time: owners release when they can, others look in between.


def steps(
    partitions: int, fleet: Collection[str], owners: Mapping[int, str], busy: Collection[int]
) -> Iterator[tuple[int, str | None]]:
    """What some member would do next: release a partition, or take one that is free."""
    wanted = assign(NAME, partitions, fleet, owners, busy=busy)
    for partition, member in wanted.items():
        owner = owners.get(partition)
        if owner in fleet and owner != member:
            yield partition, None
        elif owner != member:
            yield partition, member


@STEADY
@given(st.integers(1, 24), fleets, ownerships, st.randoms(use_true_random=False))
def test_one_step_at_a_time_in_any_order_comes_to_balance_with_the_fewest_moves(
    partitions: int, fleet: set[str], owners: dict[int, str], random: Random
) -> None:
    owners = {p: owner for p, owner in owners.items() if p < partitions}
    least = least_moves(owners, partitions, fleet)
    released = taken = 0
    free = sum(owners.get(p) not in fleet for p in range(partitions))
    everything = range(partitions)
    while possible := list(steps(partitions, fleet, owners, random.sample(everything, partitions // 2))):
        partition, member = random.choice(possible)
        if member is None:
            del owners[partition]
            released += 1
        else:
            owners[partition] = member
            taken += 1
        assert taken <= least + free
    assert (released, taken) == (least, least + free)
    check_balance(dict(sorted(owners.items())), partitions, fleet)


# Members that serve different subscriptions.


@STEADY
@given(
    st.dictionaries(st.sampled_from(["billing", "audit", "search", "mail"]), fleets, min_size=2),
    st.integers(1, 20),
)
def test_members_that_serve_different_subscriptions_leave_no_partition_unowned(
    serving: dict[str, set[str]], partitions: int
) -> None:
    fleet = set().union(*serving.values())
    before = {name: assign(name, partitions, who, {}) for name, who in serving.items()}
    for name, who in serving.items():
        check_balance(before[name], partitions, who)
    for leaver in fleet:
        for name, who in serving.items():
            left = who - {leaver}
            after = assign(name, partitions, left, before[name])
            if not left:
                assert after == {}
                continue
            check_balance(after, partitions, left)
            changed = {p for p in after if after[p] != before[name][p]}
            assert changed == {p for p in after if before[name][p] == leaver}


def test_the_largest_topic_is_balanced_over_a_large_fleet_and_then_stays_as_it_is() -> None:
    fleet = [f"host-{number}" for number in range(50)]
    owners = assign(NAME, 4096, fleet, {})
    check_balance(owners, 4096, fleet)
    assert assign(NAME, 4096, fleet, owners, busy=range(0, 4096, 3)) == owners

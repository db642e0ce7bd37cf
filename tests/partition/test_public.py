"""What `partition` offers, name by name: whoever adds or drops one says so here."""

from types import ModuleType

import partition


def test_partition_offers_exactly_these_names() -> None:
    assert sorted(partition.__all__) == [
        "Beat",
        "Judgement",
        "Lane",
        "Lease",
        "Order",
        "Progress",
        "Range",
        "Rhythm",
        "SLOTS",
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


def test_partition_holds_no_public_name_that_it_does_not_offer() -> None:
    held = {name: value for name, value in vars(partition).items() if not name.startswith("_")}
    assert {name for name, value in held.items() if not isinstance(value, ModuleType)} == set(partition.__all__)

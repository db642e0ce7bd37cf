"""A read that a limit has cut is followed by the next at once, and one that was overtaken is forgotten."""

import time

import pytest

from partition import Lease, Rhythm
from streams import Retry, Streams
from streams.stores.rows import Cursor, Fetched, Held, Hole, Record
from streams.subscription import subscription
from streams.worker.actor import Actor
from streams.worker.fetch import may_have_more
from streams.worker.heart import Heart

HOLE = (Hole(3, 6, None),)


def record(offset: int) -> Record:
    return Record(offset, None, b"", None, 0)


def actor_at(position: int) -> Actor:
    """A partition that was just taken over."""

    async def handle(payload: bytes) -> None: ...

    topic = Streams("memory://").topic("orders", bytes)
    made = subscription(topic, handle, group="billing", start="earliest", order="key", concurrency=1, retry=Retry())
    held = Held(Lease("billing", "orders", 0, "me", 1), position, (), 100)
    heart = Heart("me", Rhythm.of(10), time.monotonic, sent=time.monotonic(), stall_seconds=10)
    return Actor(held, made, 1, heart, on_moved=lambda actor: None, on_room=lambda: None)


def cursor_of(actor: Actor) -> Cursor:
    cursor = actor.cursor(1000)
    assert cursor is not None
    return cursor


def test_a_read_that_another_has_overtaken_is_forgotten() -> None:
    actor = actor_at(2)
    early = cursor_of(actor)
    assert actor.admit(Fetched([record(7)], 7, HOLE), early)
    assert not actor.admit(Fetched([record(3)], 3), early)
    assert (actor.window.cursor, actor.holes, len(actor.window)) == (7, HOLE, 1)


def test_a_read_of_holes_that_another_has_overtaken_is_forgotten_though_the_cursor_stood_still() -> None:
    actor = actor_at(2)
    actor.admit(Fetched([record(7)], 7, HOLE), cursor_of(actor))
    early = cursor_of(actor)
    left = (Hole(5, 6, None),)
    assert actor.admit(Fetched([record(3)], 7, left), early)
    assert not actor.admit(Fetched([], 7, HOLE), early)
    assert (actor.window.cursor, actor.holes, len(actor.window)) == (7, left, 2)


@pytest.mark.parametrize(
    ("offsets", "through", "more"),
    [
        ([], 10, False),
        ([11, 12], 14, False),
        ([11, 12], 12, True),
        ([11, 12, 13], 14, True),
        ([4, 11], 14, False),
        ([4, 11], 11, True),
        ([3, 4, 5], 10, True),
        ([4], 10, True),
    ],
    ids=["nothing", "end", "bytes", "records", "hole", "hole-bytes", "hole-records", "hole-only"],
)
def test_there_may_be_more_when_a_limit_may_have_cut_the_read(offsets: list[int], through: int, more: bool) -> None:
    """Where only holes gave records, nobody can tell; it is read once more."""
    records = [record(offset) for offset in offsets]
    cursor = Cursor(1, 0, 10, (), 3, 1000, HOLE)
    assert may_have_more(Fetched(records, through), cursor) == more

"""A file that was removed or replaced while it is open is noticed before more is written where nobody will find it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from streams.errors import StoreUnavailable
from streams.stores.rows import Held, TopicRow
from streams.stores.sqlite.store import SqliteStore
from tests.conformance.clock import Clock
from tests.conformance.samples import APPLIED, member, payloads_of, publications, settlement
from tests.stores.sqlite_file import store_on

GONE = r"streams\.db was removed or replaced .*nothing was written.*restart"


def remove(path: Path) -> None:
    path.rename(path.with_suffix(".aside"))


def replace(path: Path) -> None:
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    remove(path)
    copy.rename(path)


@pytest.mark.parametrize("change", [remove, replace])
async def test_every_verb_says_that_the_file_is_gone(
    store: SqliteStore, orders: TopicRow, held: Held, path: Path, change: Callable[[Path], None]
) -> None:
    change(path)
    for verb in (
        lambda: store.append(publications(orders, 1)),
        lambda: store.commit([settlement(held.lease, 1, 1)]),
        lambda: store.beat("ann", turned=True, stopping=False),
        store.topics,
    ):
        with pytest.raises(StoreUnavailable, match=GONE):
            await verb()


async def test_a_file_that_is_gone_is_not_made_again(store: SqliteStore, orders: TopicRow, path: Path) -> None:
    remove(path)
    with pytest.raises(StoreUnavailable, match=GONE):
        await store.append(publications(orders, 1))
    assert not path.exists()


async def test_a_file_that_is_put_back_is_used_again(store: SqliteStore, orders: TopicRow, path: Path) -> None:
    remove(path)
    with pytest.raises(StoreUnavailable, match=GONE):
        await store.append(publications(orders, 1))
    path.with_suffix(".aside").rename(path)
    assert await store.append(publications(orders, 1)) == [1]


async def test_a_sibling_does_not_open_another_file(store: SqliteStore, orders: TopicRow, path: Path) -> None:
    replace(path)
    sibling = store.sibling().sibling()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=GONE):
            await sibling.open(migrate=False, create=False)


async def test_a_store_that_is_opened_again_goes_by_what_is_there_now(store: SqliteStore, path: Path) -> None:
    remove(path)
    with pytest.raises(StoreUnavailable, match=GONE):
        await store.topics()
    await store.close()
    await store.open(migrate=True, create=True)
    orders = await store.ensure_topic("orders", 4, "json")
    assert await store.append(publications(orders, 2)) == [1, 2]
    assert await payloads_of(store, orders) == [b"1", b"2"]


async def test_a_store_that_is_opened_again_settles_for_the_groups_that_are_there_now(
    store: SqliteStore, held: Held, path: Path
) -> None:
    assert await store.commit([settlement(held.lease, 1, 0)]) == [APPLIED]
    remove(path)
    await store.close()
    await store.open(migrate=True, create=True)
    await store.ensure_topic(held.lease.topic, 4, "json")
    for group in ("audit", held.lease.group):  # The first gets the number that the other one had.
        await store.ensure_group(group, held.lease.topic, "earliest")
    await store.register(member("bob"))
    (again,) = await store.acquire("bob", [(held.lease.group, held.lease.topic, held.lease.partition)])
    assert await store.commit([settlement(again.lease, 1, 0)]) == [APPLIED]


async def test_a_program_that_goes_to_another_folder_keeps_its_file(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, nothing_is_left: None
) -> None:
    monkeypatch.chdir(tmp_path)
    store = store_on(Path("streams.db"), clock=clock)
    await store.open(migrate=True, create=True)
    orders = await store.ensure_topic("orders", 4, "json")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert await store.append(publications(orders, 1)) == [1]
    sibling = store.sibling()
    await sibling.open(migrate=False, create=False)
    assert await sibling.append(publications(orders, 1)) == [2]
    await sibling.close()
    await store.close()

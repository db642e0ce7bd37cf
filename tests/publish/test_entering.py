"""An app is open between `async with` and its end, in one event loop of one process, and may be opened again."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from streams import NotEntered, Receipt, SettingsError, Streams, StreamsError
from tests.publish.stored import payloads, stored


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


@pytest.fixture
def app(url: str, nothing_is_left: None) -> Streams:
    return Streams(url)


async def test_an_app_that_was_not_entered_publishes_nothing(app: Streams) -> None:
    orders = app.topic("orders", int)
    for publish in (orders.publish("a", 1), app.publish("orders", "a", 1), orders.publish_many([("a", 1)])):
        with pytest.raises(NotEntered, match="publish inside `async with app:`"):
            await publish
    with pytest.raises(NotEntered):
        await app.admin.topics()


async def test_an_app_that_was_left_publishes_nothing(app: Streams, path: Path) -> None:
    orders = app.topic("orders", int)
    async with app:
        await orders.publish("a", 1)
    with pytest.raises(NotEntered):
        await orders.publish("a", 2)
    assert payloads(path) == [b"1"]


async def test_an_app_can_be_entered_again(app: Streams, path: Path) -> None:
    orders = app.topic("orders", int, partitions=1)
    for number in (1, 2, 3):
        async with app:
            assert await orders.publish("a", number) == Receipt("orders", 0, number)
    assert payloads(path) == [b"1", b"2", b"3"]


async def test_an_entered_app_cannot_be_entered_again(app: Streams) -> None:
    async with app:
        with pytest.raises(StreamsError, match="entered already"):
            await app.__aenter__()
        await app.topic("orders", int).publish("a", 1)


async def test_of_two_who_enter_at_once_one_is_refused(app: Streams) -> None:
    refused: list[StreamsError] = []
    leave = anyio.Event()

    async def enter() -> None:
        try:
            async with app:
                await leave.wait()
        except StreamsError as error:
            refused.append(error)
            leave.set()

    async with anyio.create_task_group() as group:
        group.start_soon(enter)
        group.start_soon(enter)
    assert len(refused) == 1


async def test_an_app_that_could_not_be_entered_can_be_later(tmp_path: Path) -> None:
    app = Streams(f"sqlite:///{tmp_path}/folder/streams.db", connect_seconds=0.01)
    orders = app.topic("orders", int)
    with pytest.raises(StreamsError, match="does not exist"):
        async with app:
            pass
    (tmp_path / "folder").mkdir()
    async with app:
        assert (await orders.publish("a", 1)).offset == 1


async def test_an_app_whose_entering_was_cancelled_can_be_entered(app: Streams) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with app:
            pass
    assert scope.cancelled_caught
    async with app:
        await app.topic("orders", int).publish("a", 1)


async def test_another_event_loop_is_refused(app: Streams, path: Path) -> None:
    orders = app.topic("orders", int)

    async def publish() -> None:
        await orders.publish("a", 2)

    async with app:
        await orders.publish("a", 1)
        with pytest.raises(NotEntered, match="another event loop"):
            await to_thread.run_sync(anyio.run, publish)
        await orders.publish("a", 3)
    assert payloads(path) == [b"1", b"3"]


async def test_event_loops_may_take_turns(app: Streams, path: Path) -> None:
    orders = app.topic("orders", int, partitions=1)

    async def publish() -> None:
        async with app:
            await orders.publish("a", 1)

    for backend in ("asyncio", "trio", "asyncio"):
        await to_thread.run_sync(partial(anyio.run, publish, backend=backend))
    assert [record.offset for record in stored(path)] == [1, 2, 3]


async def test_two_apps_share_a_file(url: str, path: Path) -> None:
    apps = [Streams(url), Streams(url)]
    topics = [app.topic("orders", int, partitions=1) for app in apps]
    async with apps[0], apps[1]:
        for number in range(4):
            assert (await topics[number % 2].publish("a", number)).offset == number + 1
    assert payloads(path) == [b"0", b"1", b"2", b"3"]


async def test_two_apps_have_each_their_own_file(tmp_path: Path) -> None:
    paths = [tmp_path / "a.db", tmp_path / "b.db"]
    apps = [Streams(f"sqlite:///{path}") for path in paths]
    topics = [app.topic("orders", int) for app in apps]
    async with apps[0], apps[1]:
        for topic, number in zip(topics, (1, 2), strict=True):
            assert (await topic.publish("a", number)).offset == 1
    assert [payloads(path) for path in paths] == [[b"1"], [b"2"]]


async def test_two_apps_in_memory_share_nothing() -> None:
    apps = [Streams("memory://"), Streams("memory://")]
    topics = [app.topic("orders", int) for app in apps]
    async with apps[0], apps[1]:
        assert [(await topic.publish("a", 1)).offset for topic in topics] == [1, 1]


async def test_an_app_moved_to_another_url_leaves_the_old_data(
    monkeypatch: pytest.MonkeyPatch, url: str, path: Path
) -> None:
    app = Streams()
    orders = app.topic("orders", int, partitions=1)
    for moved, offset in (("memory://", 1), (url, 1), (url, 2), ("sqlite:///:memory:", 1), ("memory://", 1)):
        monkeypatch.setenv("STREAMS_URL", moved)
        async with app:
            assert (await orders.publish("a", 1)).offset == offset


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt("mine"), ExceptionGroup("mine", [OSError()])])
async def test_an_exception_of_the_block_passes_as_it_is(app: Streams, error: BaseException) -> None:
    orders = app.topic("orders", int)

    async def block() -> None:
        async with app:
            await orders.publish("a", 1)
            raise error

    with pytest.raises(type(error)) as raised:
        await block()
    assert raised.value is error
    async with app:
        assert await orders.publish("a", 1)


async def test_a_block_that_is_cancelled_ends_and_leaves_the_app_usable(app: Streams) -> None:
    orders = app.topic("orders", int)
    with anyio.fail_after(5):
        with anyio.CancelScope() as scope:
            async with app:
                await orders.publish("a", 1)
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        async with app:
            await orders.publish("a", 1)


async def test_a_returning_block_returns(app: Streams) -> None:
    async def block() -> int:
        async with app as entered:
            assert entered is app
            return 7

    assert await block() == 7


def forked(url: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, since a fork copies all that the tests have open; newer Pythons warn of that, too."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.publish.forked", url]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_forked_child_has_to_enter_for_itself(url: str, path: Path) -> None:
    seen = forked(url)
    assert seen.stdout.splitlines() == [
        "child: NotEntered: the app was entered before this process was forked; enter it in the child",
        "child: 2",
        "parent: 3",
        "parent again: 4",
    ], seen.stderr
    assert seen.stderr == ""
    assert payloads(path) == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("url", ["memory://", "sqlite:///:memory:"])
async def test_a_forked_child_has_no_part_in_its_parents_memory(url: str) -> None:
    seen = forked(url)
    assert seen.stdout.splitlines() == [
        "child: NotEntered: the app was entered before this process was forked; enter it in the child",
        f"child: SettingsError: {url} serves the process that it was first entered in; use sqlite:///file.db",
        "parent: 2",
        "parent again: 3",
    ], seen.stderr


async def test_a_bad_url_is_refused_at_the_latest_when_entering() -> None:
    with pytest.raises(SettingsError, match="mysql"):
        async with Streams("mysql://host/db"):
            pass

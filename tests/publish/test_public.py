"""The names that `streams` promises, held exactly; and its errors, which are the tree that their module draws."""

import copy
import inspect
import pickle
import re
import subprocess
import sys

import pytest

import streams
from streams import errors
from streams.errors import (
    PayloadTooLarge,
    PositionBeyondLog,
    PublishFailed,
    PublishUncertain,
    StoreBusy,
    StreamsError,
    TopicMismatch,
    UnknownTopic,
)

PUBLIC = [
    "Context",
    "DeadLetter",
    "Discard",
    "InvalidConnection",
    "InvalidHeaders",
    "InvalidKey",
    "InvalidName",
    "InvalidPayload",
    "LeaseLost",
    "MigrationNeeded",
    "NotEntered",
    "PayloadTooLarge",
    "PositionBeyondLog",
    "PublishFailed",
    "PublishUncertain",
    "Receipt",
    "Retry",
    "RetryLater",
    "SettingsError",
    "StoreBusy",
    "StoreUnavailable",
    "Streams",
    "StreamsError",
    "Topic",
    "TopicMismatch",
    "UnknownTopic",
]

ERRORS = {kind.__name__: kind for kind in vars(errors).values() if inspect.isclass(kind)}

EXAMPLES: list[StreamsError] = [
    UnknownTopic("orders", "no such topic"),
    TopicMismatch("orders", "partitions", code=8, database=16),
    PayloadTooLarge("orders", 11, 10),
    PublishFailed("not all", written=7),
    PublishUncertain("lost", written=7),
    PositionBeyondLog("billing", "orders", 1, 9, 5),
    StoreBusy("locked"),
]


def test_streams_exports_what_it_promises_and_nothing_else() -> None:
    assert streams.__all__ == PUBLIC == sorted(PUBLIC)
    assert not [name for name in PUBLIC if not hasattr(streams, name)]


def test_every_public_name_says_what_it_is() -> None:
    assert not [name for name in PUBLIC if not inspect.getdoc(getattr(streams, name))]


def drawn() -> dict[str, str]:
    """Each error of the tree in the docstring, with the one it hangs on."""
    assert errors.__doc__ is not None
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in errors.__doc__.splitlines():
        found = re.fullmatch(r" {4}([│ ├└─]*)([A-Z]\w+)( .*)?", line)
        if found is None:
            continue
        depth = len(found[1]) // 4
        above[depth:] = [found[2]]
        parents[found[2]] = above[depth - 1] if depth else ""
    return parents


def test_the_tree_of_errors_is_the_one_that_is_drawn() -> None:
    real = {name: kind.__bases__[0].__name__ for name, kind in ERRORS.items() if kind is not StreamsError}
    assert drawn() == {"StreamsError": "", **real}


def test_what_the_drawing_says_of_value_errors_is_so() -> None:
    assert errors.__doc__ is not None
    said = {line.split()[1] for line in errors.__doc__.splitlines() if line.endswith("(also a ValueError)")}
    real = {name for name, kind in ERRORS.items() if ValueError in kind.__bases__}
    assert said == real == {"InvalidName", "InvalidKey", "InvalidPayload", "InvalidHeaders", "InvalidConnection"}


def test_every_error_is_exported() -> None:
    assert ERRORS.keys() <= set(PUBLIC)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_cross_processes_with_what_they_know(error: StreamsError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_importing_streams_loads_no_driver_and_no_command_line() -> None:
    script = (
        "import sys, streams; print(*sorted({'sqlite3', 'asyncpg', 'cyclopts', 'rich', 'trio'} & sys.modules.keys()))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []

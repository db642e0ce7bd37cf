"""Where a worker is tested: on which store and event loop, and by which clock."""

from typing import Any, NamedTuple

import pytest


class Setting(NamedTuple):
    """A store and an event loop. In virtual time the clock stands still while anybody can run, and then jumps."""

    store: str
    backend: str
    virtual: bool = False

    def __str__(self) -> str:
        return f"{self.store}-{'virtual' if self.virtual else self.backend}"


MEMORY = Setting("memory", "asyncio")
SQLITE = Setting("sqlite", "asyncio")
TRIO = Setting("memory", "trio")
VIRTUAL = Setting("memory", "trio", virtual=True)

ORDINARY = [VIRTUAL, SQLITE]
"""What a test runs in when it says nothing."""


def in_settings(*settings: Setting) -> Any:
    """Mark tests that run in other settings than the ordinary ones."""
    return pytest.mark.parametrize("setting", settings, ids=str, indirect=True)


in_all = in_settings(MEMORY, SQLITE, VIRTUAL)
in_virtual_time = in_settings(VIRTUAL)

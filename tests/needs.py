"""Tests that need a system package: left out where it is missing, named and counted; or failed, where none may be."""

import os
from collections import Counter
from collections.abc import Callable, Iterable

import pytest

from tests.servers.binaries import servers

NO_SKIPS = "STREAMS_NO_SKIPS"
"""Set where the packages have to be there, and a test that was left out would go unnoticed."""

INSTALLED: dict[str, Callable[[], bool]] = {
    "postgresql": lambda: servers().oldest is not None,
}
"""By the name of Debian's package."""

_REASON = "needs the system package "


def needs(package: str) -> None:
    """Leave the test out, or fail it, unless the system package is installed."""
    if INSTALLED[package]():
        return
    reason = f"{_REASON}{package}"
    if os.environ.get(NO_SKIPS):
        pytest.fail(f"{reason}, and {NO_SKIPS} is set", pytrace=False)
    pytest.skip(reason)


def left_out(reports: Iterable[pytest.TestReport]) -> Counter[str]:
    """How many tests were left out, by the package they need."""
    reasons = (report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple))
    return Counter(reason.partition(_REASON)[2] for reason in reasons if _REASON in reason)

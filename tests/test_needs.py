"""A missing system package leaves tests out by name and number, or fails them; never silently."""

import pytest

from tests import needs

REPORT = ("tests/test_it.py", 1, "Skipped: needs the system package oddity")


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(needs.INSTALLED, "oddity", lambda: False)
    monkeypatch.setitem(needs.INSTALLED, "common", lambda: True)


def report(reason: tuple[str, int, str]) -> pytest.TestReport:
    return pytest.TestReport("test_it", reason, {}, "skipped", reason, "setup")


def test_a_test_runs_where_its_package_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(needs.NO_SKIPS, "1")
    needs.needs("common")


def test_a_test_is_left_out_where_its_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(needs.NO_SKIPS, raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs the system package oddity"):
        needs.needs("oddity")


def test_a_test_fails_where_none_may_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(needs.NO_SKIPS, "1")
    with pytest.raises(pytest.fail.Exception, match="needs the system package oddity"):
        needs.needs("oddity")


def test_what_was_left_out_is_counted_by_package() -> None:
    other = ("tests/test_it.py", 2, "Skipped: not today")
    assert needs.left_out([report(REPORT), report(REPORT), report(other)]) == {"oddity": 2}

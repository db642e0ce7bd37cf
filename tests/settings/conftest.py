"""An environment without any option of ours."""

import os

import pytest


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("STREAMS_")]:
        monkeypatch.delenv(name)

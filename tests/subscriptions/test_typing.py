"""mypy checks handlers and payloads against the topic's type."""

import subprocess
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("typed.py")
ROOT = Path(__file__).parents[2]


def test_mypy_takes_right_handlers_and_payloads_and_refuses_wrong_ones(pytestconfig: pytest.Config) -> None:
    assert FILE.read_text().count("type: ignore[") > 15
    cache = pytestconfig.cache
    folder = "/dev/null" if cache is None else cache.mkdir("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={folder}", str(FILE)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=ROOT)
    assert run.stdout.startswith("Success"), run.stdout + run.stderr

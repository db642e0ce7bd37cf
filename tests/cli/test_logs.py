"""Log lines, as text and as JSON."""

import json
import logging
import re
import sys

from streams.cli.logs import JsonLines, TextLines

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}"


def record(message: str, *args: object, failed: bool = False) -> logging.LogRecord:
    """A record of the logger `streams`; `failed` with an exception."""
    try:
        assert not failed, "boom\ud800"
        error = None
    except AssertionError:
        error = sys.exc_info()
    return logging.LogRecord("streams", logging.WARNING, __file__, 1, message, args, error)


def test_a_json_line_is_one_object() -> None:
    line = JsonLines().format(record("%s left\nnow", "member"))
    assert "\n" not in line
    parsed = json.loads(line)
    assert re.fullmatch(TIME + r"\d{3}Z", parsed.pop("time"))
    assert parsed == {"level": "warning", "logger": "streams", "message": "member left\nnow"}


def test_a_json_line_holds_the_traceback() -> None:
    line = JsonLines().format(record("failed", failed=True))
    assert "\n" not in line
    parsed = json.loads(line)
    assert parsed["exception"].startswith("Traceback (most recent call last):\n")
    assert "boom\\ud800" in parsed["exception"]


def test_a_text_line_begins_with_time_and_level() -> None:
    assert re.fullmatch(TIME + "Z WARNING  member left", TextLines().format(record("member left")))

"""Logging to stderr. Only the command line sets it up: a program that imports streams brings its own."""

import logging
import sys
from typing import Literal

import msgspec

from streams.cli.terminal import timestamp
from streams.worker.description import printable

Level = Literal["debug", "info", "warning", "error", "critical"]
Format = Literal["text", "json"]


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, logger and message; exception and stack when there are any."""
        line = {
            "time": timestamp(int(record.created * 1_000_000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": printable(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = printable(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = printable(self.formatStack(record.stack_info))
        return msgspec.json.encode(line).decode()


class TextLines(logging.Formatter):
    """Time, level and message for people."""

    def __init__(self) -> None:
        super().__init__("%(levelname)-8s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The time is UTC, to the millisecond."""
        time = timestamp(int(record.created * 1_000_000))
        return f"{time[:23]}Z {super().format(record)}"


def configure(level: Level, form: Format) -> None:
    """Let everything from `level` on go to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())

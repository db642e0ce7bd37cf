"""What is written where: data to stdout, as a table or as JSON; words to stderr.

What comes from records and messages is written so that it cannot speak to the terminal: a key may hold an escape
sequence.
"""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

UNBOUNDED = 100_000
"""Columns of an output that is no terminal: whoever reads it gets whole lines."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MICROS = 253_402_300_799_999_999


class Paper(Console):
    """A console that lets a broken pipe pass, where rich would end the program by itself."""

    def on_broken_pipe(self) -> NoReturn:
        """Called while the error is handled."""
        raise


def legible(text: str) -> str:
    """Text in one line without anything that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def timestamp(micros: int) -> str:
    """Microseconds since the epoch as ISO 8601 in UTC; later than the year 9999 is its end."""
    moment = _EPOCH + timedelta(microseconds=min(micros, _LAST_MICROS))
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def print_json(value: object) -> None:
    """One JSON value in one line, as UTF-8 whatever the locale."""
    sys.stdout.flush()
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under upper-case headings; numbers are aligned to the right, None is a dash."""
    rows = list(rows)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[place], int | None) for row in rows)
        table.add_column(column.upper(), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*("-" if cell is None else Text(legible(str(cell))) for cell in row))
    terminal = sys.stdout.isatty()
    Paper(file=sys.stdout, width=None if terminal else UNBOUNDED, highlight=False).print(table)


def say(text: str) -> None:
    """Words for whoever watches."""
    print(legible(text), file=sys.stderr, flush=True)


def fail(error: object) -> None:
    """Why it ends, in one line."""
    say(f"error: {error}")

"""How far reading is: a bar on stderr where somebody may watch it, nothing elsewhere."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn


@contextmanager
def reading(descriptor: int, what: str) -> Iterator[Callable[[int], object]]:
    """Show how much of a stream was read; the function that is yielded is told of each part's bytes."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    records = TextColumn("{task.fields[lines]:,} lines")
    with Progress(*columns, records, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task(escape(what), total=_size(descriptor), lines=0)
        lines = 0

        def on_read(count: int) -> None:
            nonlocal lines
            lines += 1
            progress.update(task, advance=count, lines=lines)

        yield on_read


def _size(descriptor: int) -> int | None:
    """The bytes of a regular file; what else is read has no known end."""
    status = os.fstat(descriptor)
    return status.st_size if stat.S_ISREG(status.st_mode) else None

"""What there is to see while the demo runs: a live picture on a terminal, plain lines elsewhere. Both on stderr."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streams.cli.demo.standing import Standing
from streams.cli.terminal import say

COLORS = "cyan", "magenta", "yellow", "blue", "green", "white"
EVENTS = 8
PLAIN_SECONDS = 2.0


class Picture(NamedTuple):
    """All that is shown at a moment. `workers` are (name, pid, state)."""

    seconds: float
    records: int
    published: int
    rate: float
    workers: Sequence[tuple[str, int, str]]
    standing: Standing

    @property
    def progress(self) -> str:
        """How far it is, in words."""
        done = f"{self.standing.settled:,} of {self.records:,} handled"
        return f"{done}, {self.published:,} published, {self.rate:,.0f} a second, lag {self.standing.lag:,}"


class Screen(ABC):
    """Shows pictures as they come, and tells what happened."""

    def __enter__(self) -> Self:
        return self

    def __exit__(  # noqa: B027
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""

    @abstractmethod
    def tell(self, seconds: float, event: str) -> None:
        """Something happened, so long after the start."""

    @abstractmethod
    def show(self, picture: Picture) -> None:
        """This is how it looks now."""


class Plain(Screen):
    """Events as they happen, and every now and then how far it is."""

    def __init__(self) -> None:
        self._shown = 0.0

    def tell(self, seconds: float, event: str) -> None:
        say(f"{seconds:6.1f} s  {event}")

    def show(self, picture: Picture) -> None:
        if picture.published and picture.seconds - self._shown >= PLAIN_SECONDS:
            self._shown = picture.seconds
            self.tell(picture.seconds, picture.progress)


class Moving(Screen):
    """One picture that moves, the last events below it."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=10, redirect_stdout=False)
        self._events: deque[str] = deque(maxlen=EVENTS)
        self._picture: Picture | None = None

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def tell(self, seconds: float, event: str) -> None:
        self._events.append(f"{seconds:6.1f} s  {event}")
        if self._picture is not None:
            self.show(self._picture)

    def show(self, picture: Picture) -> None:
        self._picture = picture
        self._live.update(self._draw(picture))

    def _draw(self, picture: Picture) -> RenderableType:
        bar = ProgressBar(total=picture.records, completed=picture.standing.settled)
        head = Text.assemble((f"{picture.seconds:6.1f} s  ", "bold"), picture.progress)
        return Group(head, bar, "", _fleet(picture), "", *(Text(event) for event in self._events))


def _fleet(picture: Picture) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("WORKER", "PID", "STATE", "LAG", "PARTITIONS"):
        table.add_column(column, justify="right" if column == "LAG" else "left")
    for place, (name, pid, state) in enumerate(picture.workers):
        style = COLORS[place % len(COLORS)] if state == "running" else "red"
        table.add_row(Text(name, style), str(pid), Text(state, style), *_held(picture.standing, name, style))
    if picture.standing.held_by(None):
        table.add_row(Text("nobody", "bold red"), "", "", *_held(picture.standing, None, "bold red"))
    return table


def _held(standing: Standing, owner: str | None, style: str) -> tuple[str, Text]:
    held = standing.held_by(owner)
    lag = sum(standing.lags[partition] for partition in held)
    return f"{lag:,}", Text(" ".join(f"{partition:2}" for partition in held), style)


def screen() -> Screen:
    """The one that fits."""
    console = Console(stderr=True, highlight=False)
    return Moving(console) if console.is_terminal and not console.is_dumb_terminal else Plain()

"""What a run says at its end: one table for people, one object for programs."""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec
from rich.table import Table
from rich.text import Text

from streams.cli.bench.figure import Figure, Target
from streams.cli.terminal import UNBOUNDED, Paper


class Machine(msgspec.Struct, frozen=True):
    """Where and when."""

    date: str
    system: str
    processor: str
    cores: int
    python: str
    database: str


def machine(database: str) -> Machine:
    """This one, now."""
    return Machine(
        date=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        processor=_processor(),
        cores=os.cpu_count() or 1,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        database=database,
    )


def as_json(where: Machine, scale: float, measured: Mapping[str, Sequence[Figure]]) -> dict[str, object]:
    """All figures, and those that have a target once more."""
    return {
        "machine": where,
        "scale": scale,
        "measurements": {
            name: [{"figure": one.name, "value": one.value, "unit": one.unit} for one in figures]
            for name, figures in measured.items()
        },
        "targets": [
            {
                "measurement": name,
                "figure": one.name,
                "value": one.value,
                "unit": one.unit,
                "target": _bound(one.target),
                "goal": one.target.goal,
                "met": one.met,
            }
            for name, figures in measured.items()
            for one in figures
            if one.target is not None
        ],
    }


def print_report(where: Machine, scale: float, measured: Mapping[str, Sequence[Figure]]) -> None:
    """The table, on stdout."""
    scaled = "" if scale == 1 else f"; scale {scale:g}: too little to go by"
    caption = f"{where.date}; {where.processor}, {where.cores} cores, {where.system}; {where.python}, {where.database}"
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("MEASUREMENT", "FIGURE", "VALUE", "UNIT", "TARGET", ""):
        table.add_column(column, justify="right" if column == "VALUE" else "left")
    for name, figures in measured.items():
        for place, one in enumerate(figures):
            target = "" if one.target is None else _bound(one.target)
            style = "bold" if one.target else ""
            shown = Text(_shown(one.value), style)
            table.add_row(name if place == 0 else "", Text(one.name, style), shown, one.unit, target, _verdict(one))
        table.add_section()
    paper = Paper(file=sys.stdout, width=None if sys.stdout.isatty() else UNBOUNDED, highlight=False)
    paper.print(table, Text(caption + scaled), sep="\n\n")


def _bound(target: Target) -> str:
    goal = "" if target.goal is None else f" (goal {target.goal:g})"
    return f"{target.word} {target.bound:g}{goal}"


def _verdict(figure: Figure) -> Text:
    if figure.target is None:
        return Text("")
    match figure.met:
        case None:
            return Text("not measured", "yellow")
        case True:
            return Text("met", "green")
        case False:
            return Text("missed", "red")


def _shown(value: float | None) -> str:
    """Three digits that count, and no more; counts whole."""
    if value is None:
        return "-"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or "processor unknown"

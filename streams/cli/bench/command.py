"""`streams bench`: its options, and the order of its measurements."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal, get_args

import anyio
from cyclopts import Parameter

from streams.cli.bench import (
    backlog,
    concurrent,
    handle,
    handover,
    idle,
    join,
    latency,
    peers,
    publish,
    rings,
    snapshot,
    takeover,
    volume,
)
from streams.cli.bench.figure import Figure
from streams.cli.bench.report import as_json as report_as_json
from streams.cli.bench.report import machine, print_report
from streams.cli.bench.site import Site
from streams.cli.bench.sizes import Sizes
from streams.cli.interrupt import ending_on_signals
from streams.cli.options import LOGGING, Json, Logging
from streams.cli.terminal import print_json, say
from streams.cli.url import refuse_in_memory
from streams.cli.usage import UsageError
from streams.clock import boottime
from streams.stores.bare import kind_of

Name = Literal[
    "publish",
    "concurrent",
    "rings",
    "handle",
    "peers",
    "volume",
    "snapshot",
    "backlog",
    "latency",
    "idle",
    "takeover",
    "handover",
    "join",
]
Tell = Callable[[str], None]
Measure = Callable[[Site, Sizes, Tell], Awaitable[list[Figure]]]

MEASUREMENTS: dict[Name, Measure] = {
    "publish": publish.measure,
    "concurrent": concurrent.measure,
    "rings": rings.measure,
    "handle": handle.measure,
    "peers": peers.measure,
    "volume": volume.measure,
    "snapshot": snapshot.measure,
    "backlog": backlog.measure,
    "latency": latency.measure,
    "idle": idle.measure,
    "takeover": takeover.measure,
    "handover": handover.measure,
    "join": join.measure,
}
SERVERS_ONLY: frozenset[Name] = frozenset({"concurrent", "rings", "peers", "volume", "snapshot", "join"})
"""What is measured only where many share a database."""
LARGEST_SCALE = 100.0


def bench(
    *,
    only: Annotated[
        tuple[Name, ...],
        Parameter(negative="", show_default=False, help="Only this measurement; may be repeated."),
    ] = (),
    scale: Annotated[float, Parameter(help="So many times the records, samples and seconds; 0.01 is quick.")] = 1.0,
    url: Annotated[str | None, Parameter(metavar="URL", help="A database; else fresh SQLite files.")] = None,
    as_json: Json = False,
    logging: Logging = LOGGING,
) -> None:
    """Measure publishing, handling, latency, idleness, takeover and handover on this machine.

    Bare loops run beside what is measured, in the same run. Figures that have a target are met or missed; the exit
    code is 0 either way. A full run takes some minutes, and wants a machine that does nothing else.
    """
    logging.set_up()
    if not 0 < scale <= LARGEST_SCALE:
        raise UsageError(f"--scale {scale:g}: above 0, and at most {LARGEST_SCALE:g}")
    chosen = _chosen(only, url)
    sizes = Sizes().scaled(scale)
    measured: dict[str, list[Figure]] = {}
    with ending_on_signals():
        for name in chosen:
            measured[name], database = _measure(name, sizes, url)
    where = machine(database)
    if as_json:
        print_json(report_as_json(where, scale, measured))
    else:
        print_report(where, scale, measured)
    if url is not None:
        say("The topics bench-… and their groups stay in the database.")


def _chosen(only: Sequence[Name], url: str | None) -> list[Name]:
    names: tuple[Name, ...] = get_args(Name)
    if url is not None:
        refuse_in_memory(url)
        if kind_of(url) == "postgresql":
            return [name for name in names if not only or name in only]
    if refused := [name for name in only if name in SERVERS_ONLY]:
        raise UsageError(f"--only {refused[0]} is measured on PostgreSQL only: add --url postgresql://…")
    return [name for name in names if name not in SERVERS_ONLY and (not only or name in only)]


def _measure(name: Name, sizes: Sizes, url: str | None) -> tuple[list[Figure], str]:
    """One measurement, in a folder of its own, and on what database it was made."""
    began = boottime()

    def tell(event: str) -> None:
        say(f"{boottime() - began:6.1f} s  {name}: {event}")

    with TemporaryDirectory(prefix="streams-bench-") as folder, Site(name, Path(folder), url) as site:
        measured = anyio.run(_at, site, MEASUREMENTS[name], sizes, tell)
        tell("done")
        return measured


async def _at(site: Site, measure: Measure, sizes: Sizes, tell: Tell) -> tuple[list[Figure], str]:
    figures = await measure(site, sizes, tell)
    async with site.bare() as bare:
        return figures, bare.server

"""What a worker of the benchmark is told, by its environment."""

import os
from pathlib import Path
from typing import NamedTuple

PREFIX = "STREAMS_BENCH_"


class Errand(NamedTuple):
    """The topic and group to serve, and the file to write notes to.

    Each handler takes `seconds`, and is noted at its start; without `each` only the first one is, and it does nothing.
    """

    topic: str
    group: str
    partitions: int
    notes: Path
    each: bool = False
    seconds: float = 0.0

    def environment(self) -> dict[str, str]:
        """This process's environment, and this errand in it; settings of ours that lie in it do not count."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("STREAMS_")}
        return {**inherited, PREFIX + "ERRAND": "\n".join(map(str, self))}


def from_environment() -> Errand:
    """The errand of this process."""
    topic, group, partitions, notes, each, seconds = os.environ[PREFIX + "ERRAND"].split("\n")
    return Errand(topic, group, int(partitions), Path(notes), each == "True", float(seconds))

"""What a worker of the demo is told, by its environment."""

import os
from pathlib import Path
from typing import NamedTuple

PREFIX = "STREAMS_DEMO_"


class Errand(NamedTuple):
    """The topic to handle, and the file to write notes to."""

    topic: str
    partitions: int
    notes: Path

    def environment(self) -> dict[str, str]:
        """This process's environment, and this errand in it."""
        return {**os.environ, **{PREFIX + name.upper(): str(value) for name, value in self._asdict().items()}}


def from_environment() -> Errand:
    """The errand of this process."""
    topic, partitions, notes = (os.environ[PREFIX + name.upper()] for name in Errand._fields)
    return Errand(topic, int(partitions), Path(notes))

"""Bugs on purpose: each is put into a copy of the code, and the simulation has to find it.

`python -m tests.simulation.bugs [NAME …]` prints which seed catches which; docs/testing.md has the table.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SEEDS = 200


class Bug(NamedTuple):
    """What is replaced in a file, and by what."""

    name: str
    file: str
    code: str
    instead: str


BUGS = [
    Bug(
        "a settlement is not fenced",
        "streams/stores/memory.py",
        "return held if held is not None and held.lease.permits(lease.member, lease.epoch) else None",
        "return held",
    ),
    Bug(
        "a settlement is applied twice",
        "streams/stores/memory.py",
        "if held.key >= (lease.epoch, progress.number):\n        return True",
        "pass",
    ),
    Bug(
        "a lease is taken from a living owner",
        "streams/stores/memory.py",
        "if owner is not None and owner in state.members and not state.members[owner].dead:",
        "if False:",
    ),
    Bug(
        "a dead member comes back to life",
        "streams/stores/memory.py",
        "if row is None or row.dead:\n                return False\n            if row.alive_until <= now:",
        "if row is None:\n                return False\n            if False:",
    ),
    Bug(
        "a lane is forgotten",
        "partition/window.py",
        "                name = item.key\n",
        "                name = None\n",
    ),
    Bug(
        "the position passes over unsettled records",
        "partition/window.py",
        "through = next(iter(self._unsettled), self.cursor + 1) - 1",
        "through = self.cursor",
    ),
    Bug(
        "handlers start without a look at trust",
        "streams/worker/actor.py",
        "and now < self.heart.trust_until",
        "and True",
    ),
    Bug(
        "a member does not stop at the end of trust",
        "streams/worker/membership.py",
        "if self._clock() >= self._heart.trust_until:",
        "if False:",
    ),
    Bug(
        "a handover does not wait for handlers",
        "streams/worker/handover.py",
        "while actor.running and not actor.closed:",
        "while False:",
    ),
    Bug(
        "keys of handlers that do not end are not kept closed",
        "streams/worker/dispatch.py",
        "        return {\n            runner.lane.name\n",
        "        return {\n            ''\n",
    ),
    Bug(
        "a withheld record counts as settled",
        "streams/worker/actor.py",
        "self.waiting.extendleft(self.sent.pop(offset) for offset in reversed(withheld))",
        "pass",
    ),
    Bug(
        "a lane does not wait for what was withheld",
        "streams/worker/actor.py",
        "        self.withheld = len(withheld)\n",
        "        for output in self.sent.values():\n            self.window.let_go(output.lane)\n"
        "        self.withheld = len(withheld)\n",
    ),
    Bug(
        "a row too far ahead is believed",
        "partition/membership.py",
        "beat.alive_until > now + beat.lease_micros",
        "False",
    ),
]


def seed_that_finds(bug: Bug, seeds: int = SEEDS) -> tuple[int, str] | None:
    """The first seed that finds a bug, and what it says."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("partition", "streams", "tests/simulation"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / "tests" / "__init__.py").touch()
        text = (copy / bug.file).read_text()
        assert text.count(bug.code) == 1, f"{bug.file} has no single {bug.code!r}"
        (copy / bug.file).write_text(text.replace(bug.code, bug.instead))
        program = (
            "import logging\n"
            "from tests.simulation.world import simulate\n"
            "logging.getLogger('streams').setLevel(logging.CRITICAL)\n"
            f"for seed in range({seeds}):\n"
            "    try:\n"
            "        simulate(seed)\n"
            "    except BaseException as error:\n"
            "        while isinstance(error, BaseExceptionGroup):\n"
            "            error = error.exceptions[0]\n"
            "        print(seed, error, flush=True)\n"
            "        break\n"
        )
        done = subprocess.run([sys.executable, "-c", program], cwd=copy, capture_output=True, text=True, timeout=1800)
    seed, _, violation = done.stdout.strip().partition(" ")
    return (int(seed), violation) if seed else None


if __name__ == "__main__":
    for bug in BUGS:
        if not sys.argv[1:] or any(word in bug.name for word in sys.argv[1:]):
            found = seed_that_finds(bug)
            print(f"{bug.name}: {f'seed {found[0]}: {found[1][:160]}' if found else 'NOT FOUND'}", flush=True)

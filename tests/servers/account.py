"""Whom a server runs as. PostgreSQL refuses to be root, so for root it is somebody who may do nothing."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple, TypedDict

NAMES = ("postgres", "nobody")


class Identity(TypedDict, total=False):
    """What `subprocess` takes to start a process as somebody else."""

    user: int
    group: int
    extra_groups: list[int]


class Account(NamedTuple):
    """Ourselves, when there is no identity."""

    identity: Identity

    def own(self, *paths: Path) -> None:
        """Make these files and folders its own."""
        if self.identity:
            for path in paths:
                os.chown(path, self.identity["user"], self.identity["group"])

    def runs(self, *command: str | Path) -> bool:
        """Whether it may start this: every folder above has to let it through."""
        try:
            subprocess.run(command, capture_output=True, check=True, cwd="/", **self.identity)
        except (PermissionError, subprocess.CalledProcessError):
            return False
        return True

    def enters(self, folder: Path) -> bool:
        """Whether it may look into this folder."""
        return self.runs(shutil.which("ls") or "ls", folder)


def unprivileged() -> Account:
    """Ourselves, unless we are root."""
    if os.geteuid() != 0:
        return Account({})
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = next(known[name] for name in NAMES if name in known)
    return Account({"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []})

"""What the kernel knows of another process. Linux says it in /proc; elsewhere there is no answer."""

import os
import re
from pathlib import Path


def peak_megabytes(pid: int) -> float | None:
    """The most memory that a process ever had resident."""
    status = _read(pid, "status")
    found = status and re.search(r"^VmHWM:\s+(\d+) kB$", status, flags=re.MULTILINE)
    return int(found[1]) / 1024 if found else None


def cpu_seconds(pid: int) -> float | None:
    """The time that all threads of a process have run, in user and in kernel mode."""
    stat = _read(pid, "stat")
    if stat is None:
        return None
    fields = stat.rpartition(")")[2].split()  # The name before it may hold anything.
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read(pid: int, name: str) -> str | None:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None

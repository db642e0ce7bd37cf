"""What a server leaves behind, and its removal: processes, shared memory, the folder.

Run as a program, with the folder as its argument, this waits until its standard input ends, and then removes whatever
is left. A server starts one of these: it outlives a run that is killed, when nobody else is there to stop the server.
"""

import contextlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

SECONDS = 20.0
"""The most that processes take to be gone after SIGKILL."""

DATA = "data"


def family(postmaster: psutil.Process) -> list[psutil.Process]:
    """The postmaster, standing still, so that it starts no other meanwhile; and all that it has started."""
    postmaster.suspend()
    _wait_until([postmaster], _still)
    return [postmaster, *postmaster.children(recursive=True)]


def kill(postmaster: psutil.Process) -> None:
    """End them all by SIGKILL, in one moment for them: the postmaster, who could react, stands still and goes last."""
    processes = family(postmaster)
    for process in reversed(processes):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _wait_until(processes, _gone)


def pause(postmaster: psutil.Process) -> None:
    """Stop them all by SIGSTOP. They stand still when this returns."""
    processes = family(postmaster)
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    _wait_until(processes, _still)


def _wait_until(processes: Iterable[psutil.Process], condition: Callable[[psutil.Process], bool]) -> None:
    """A signal is sent at once, but acts when the process is next scheduled, and back from the disk."""
    deadline = time.monotonic() + SECONDS
    while left := [process for process in processes if not condition(process)]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {SECONDS:g} s: {left}")
        time.sleep(0.001)


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if not _gone(process)]


def _gone(process: psutil.Process) -> bool:
    """Gone is also who is dead and was not collected by its parent: it holds nothing any more."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _still(process: psutil.Process) -> bool:
    return _gone(process) or process.status() == psutil.STATUS_STOPPED


def postmaster_of(folder: Path) -> psutil.Process | None:
    """Who runs there, by its pid file; which may be stale, and the number another's by now."""
    try:
        process = psutil.Process(int(_pid_file(folder)[0]))
        return process if str(folder / DATA) in process.cmdline() else None
    except (IndexError, ValueError, psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def sweep(folder: Path) -> None:
    """Remove all that is left of a server, whatever its state."""
    if (postmaster := postmaster_of(folder)) is not None:
        with contextlib.suppress(psutil.NoSuchProcess):
            kill(postmaster)
    _remove_shared_memory(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _remove_shared_memory(folder: Path) -> None:
    """One small segment marks a data folder as in use. After a crash it stays until the next start, or for ever."""
    with contextlib.suppress(IndexError, FileNotFoundError):
        _, segment = _pid_file(folder)[6].split()
        subprocess.run(["ipcrm", "-m", segment], stderr=subprocess.DEVNULL, check=False)


def _pid_file(folder: Path) -> list[str]:
    try:
        return (folder / DATA / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def is_ready(folder: Path, pid: int) -> bool:
    """Whether this postmaster has written that it takes connections: where pg_ctl, too, reads it."""
    lines = _pid_file(folder)
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"


if __name__ == "__main__":
    sys.stdin.read()
    sweep(Path(sys.argv[1]))

"""Workers killed, stopped, continued, told to stop and started at random, one key with half of all records."""

import os
import random
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.servers.server import Server
from tests.system.fleet import Fleet, until
from tests.system.test_takeover import check

SECONDS = 12


class Trouble:
    """A seeded sequence of what can happen to a fleet."""

    def __init__(self, fleet: Fleet, seed: int, server: Server | None = None) -> None:
        self.fleet = fleet
        self.server = server
        self.random = random.Random(seed)
        self.count = 0
        self.stopped: dict[int, tuple[subprocess.Popen[bytes], float]] = {}

    def publish(self, count: int) -> None:
        """Half of the records under one key."""
        batch = []
        for _ in range(count):
            key = "hot" if self.random.random() < 0.5 else f"key-{self.random.randrange(200)}"
            batch.append((key, self.count))
            self.count += 1
        self.fleet.publish(batch)

    def step(self) -> None:
        """One thing happens; one worker at least is left alone."""
        working = [p for p in self.fleet.processes if p.poll() is None and p.pid not in self.stopped]
        what = ["kill", "term", "stop", "publish", "start", *["crash", "restart"] * (self.server is not None)]
        match self.random.choice(what):
            case "kill" if len(working) > 1:
                self.fleet.kill(self.random.choice(working))
                self.fleet.start()
            case "term" if len(working) > 1:
                self.random.choice(working).terminate()
                self.fleet.start()
            case "stop" if len(working) > 1:
                process = self.random.choice(working)
                self.fleet.stop(process)
                self.stopped[process.pid] = (process, time.monotonic() + self.random.uniform(0.5, 4))
            case "start" if len(working) < 4:
                self.fleet.start()
            case "crash" if self.server is not None:
                self.server.kill()
                self.server.start()
            case "restart" if self.server is not None:
                self.server.restart()
            case _:
                self.publish(300)
        time.sleep(self.random.uniform(0.1, 0.8))
        self.go_on(time.monotonic())

    def go_on(self, now: float) -> None:
        """Continue those that were stopped for long enough."""
        for pid, (process, due) in list(self.stopped.items()):
            if due <= now:
                self.fleet.go_on(process)
                del self.stopped[pid]


def run(fleet: Fleet, seed: int, seconds: float, server: Server | None = None) -> None:
    trouble = Trouble(fleet, seed, server)
    fleet.start(3)
    trouble.publish(2000)
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        trouble.step()
    trouble.go_on(float("inf"))
    until(lambda: fleet.handled(trouble.count), "all handled")
    check(fleet, trouble.count)


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_happens_to_processes_nothing_is_lost_reordered_or_run_twice_at_once(
    fleet_of: Callable[..., Fleet], seed: int
) -> None:
    run(fleet_of(handler_seconds=0.002), seed, SECONDS)


@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
@pytest.mark.parametrize("seed", [3])
def test_whatever_happens_to_processes_and_the_server_nothing_is_lost_reordered_or_run_twice_at_once(
    server: Server, fleet_of: Callable[..., Fleet], seed: int
) -> None:
    run(fleet_of(handler_seconds=0.002), seed, SECONDS, server)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["postgres"], indirect=True)
@pytest.mark.parametrize("seed", range(30, 30 + int(os.environ.get("STREAMS_CHAOS_SEEDS", "10"))))
def test_the_same_with_the_server_for_a_minute_on_many_seeds(
    server: Server, fleet_of: Callable[..., Fleet], seed: int
) -> None:
    run(fleet_of(handler_seconds=0.01), seed, 60, server)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 10 + int(os.environ.get("STREAMS_CHAOS_SEEDS", "10"))))
def test_the_same_for_a_minute_on_many_seeds(fleet_of: Callable[..., Fleet], seed: int) -> None:
    run(fleet_of(handler_seconds=0.002), seed, 60)

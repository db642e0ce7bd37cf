"""Real workers whose PostgreSQL crashes, is restarted, or stands still."""

import time
from collections.abc import Callable

import pytest

from tests.servers.server import Server
from tests.system.fleet import Fleet, until
from tests.system.test_takeover import check, items, shared_by

MakeFleet = Callable[..., Fleet]

pytestmark = pytest.mark.parametrize("kind", ["postgres"], indirect=True)


def crash(server: Server) -> None:
    server.kill()
    server.start()


def stand_still(server: Server) -> None:
    """For longer than the lease."""
    server.pause()
    time.sleep(2)
    server.resume()


@pytest.mark.parametrize("happens", [crash, Server.restart, stand_still], ids=["crash", "restart", "standstill"])
def test_no_two_handlers_of_a_key_run_at_once_and_nothing_is_lost(
    fleet_of: MakeFleet, server: Server, happens: Callable[[Server], None]
) -> None:
    fleet = fleet_of(lease_seconds=1, handler_seconds=0.3)
    fleet.publish(items(240, keys=80))
    fleet.start(3)
    until(lambda: shared_by(fleet, 3), "three members share the partitions")
    until(lambda: len(fleet.journal().all()) > 60, "they work")
    happens(server)
    fleet.publish(items(80, keys=80, start=240))
    check(fleet, 320)

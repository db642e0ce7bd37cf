"""`streams worker`: runs the handlers of an app."""

import logging as log_library
from typing import Annotated

import anyio
from cyclopts import Parameter

from streams import Streams
from streams.cli.options import LOGGING, WORKER_SETTINGS, Logging, WorkerSettings
from streams.cli.service import Service
from streams.cli.target import load
from streams.cli.url import refuse_in_memory, without_password
from streams.cli.usage import UsageError

log = log_library.getLogger("streams")

Names = Annotated[
    tuple[str, ...], Parameter(negative="", show_default=False, help="Only these subscriptions; may be repeated.")
]


def worker(
    target: Annotated[str, Parameter(name="MODULE:APP", help="Where the app is: shop:app is `app` in shop.py.")],
    /,
    *,
    topic: Names = (),
    group: Names = (),
    settings: WorkerSettings = WORKER_SETTINGS,
    logging: Logging = LOGGING,
) -> int:
    """Run the handlers of an app, sharing the partitions with other workers.

    What is not given here is as the app has it, else as the STREAMS_ variable of the same name says.

    The first SIGTERM or SIGINT drains: exit code 0 when that was done in time, 1 when not. A second one stops at once.
    """
    logging.set_up("info")
    app = load(target)
    app._flags.update(settings.given())
    refuse_in_memory(app.settings.url)
    _check(app, topic, group)
    topics, groups = topic or None, group or None
    served = "; ".join(
        f"group {one.group} of topic {one.topic.name} ({one.topic.partitions} partitions)"
        for one in app._choose(topics, groups)
    )
    log.info("worker of %s on %s: %s", target, without_password(app.settings.url), served)
    drained = anyio.run(Service(app, topics=topics, groups=groups).run)
    log.info("drained and ended" if drained else "ended without having drained")
    return 0 if drained else 1


def _check(app: Streams, topics: tuple[str, ...], groups: tuple[str, ...]) -> None:
    """A name that nobody has is a mistake, also beside one that somebody has."""
    known_groups = {group for group, _ in app._subscriptions}
    known_topics = {topic for _, topic in app._subscriptions}
    for kind, names, known in (("topic", topics, known_topics), ("group", groups, known_groups)):
        if unknown := sorted({*names} - known):
            subscribed = ", ".join(sorted(known)) or "none"
            raise UsageError(f"--{kind} {unknown[0]}: the app has no subscription of that {kind}, but of {subscribed}")

"""Loops that do not end of one error."""

import logging
from collections.abc import Awaitable, Callable

import anyio

log = logging.getLogger("streams")

FIRST_SECONDS = 0.05
LAST_SECONDS = 5.0
CALM_SECONDS = 30.0


async def supervised(name: str, loop: Callable[[], Awaitable[None]]) -> None:
    """Run a loop for ever: when it ends or fails, it is started again, with a growing pause.

    The same error is logged once.
    """
    pause, last = FIRST_SECONDS, ""
    while True:
        started = anyio.current_time()
        try:
            await loop()
            said = "ended"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            if said != last:
                log.error("%s failed and is started again: %s", name, said, exc_info=error)
        if anyio.current_time() - started > CALM_SECONDS:
            pause, last = FIRST_SECONDS, ""
        else:
            last = said
        await anyio.sleep(pause)
        pause = min(pause * 2, LAST_SECONDS)

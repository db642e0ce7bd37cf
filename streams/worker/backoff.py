"""Waiting for a database that is away: said once, tried ever more rarely up to a cap, said again when it is back."""

import logging
import random

import anyio

from streams.errors import PublishUncertain, StoreUnavailable

AWAY = (StoreUnavailable, PublishUncertain)
"""What a store raises when it is away, or went away before it answered: try again, and nobody is to blame."""

FIRST_SECONDS = 0.05
CAP_SECONDS = 2.0


class Backoff:
    """One thing that is tried until it works."""

    def __init__(self, what: str, log: logging.Logger) -> None:
        self._what = what
        self._log = log
        self._failures = 0

    async def pause(self, error: Exception) -> None:
        """Wait before the next try."""
        if self._failures == 0:
            self._log.warning("%s, trying again: %s", self._what, error)
        self._failures += 1
        await anyio.sleep(random.uniform(0.5, 1.0) * min(CAP_SECONDS, FIRST_SECONDS * 2.0 ** min(self._failures, 10)))

    def over(self) -> None:
        """It worked."""
        if self._failures:
            self._log.warning("%s: over after %d failures", self._what, self._failures)
        self._failures = 0

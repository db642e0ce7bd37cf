"""The end of a process that does not end.

A handler may swallow its cancellation, or block the event loop, and what waits for it waits for ever. So signals are
heard here beside whoever handles them, between two bytecodes of the main thread, and a thread that shares nothing
with the event loop looks at the time.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger("streams")

EXIT_CODE = 1
GRACE_SECONDS = 10.0
"""Beyond `shutdown_seconds`, for what follows the drain."""
SECOND_SECONDS = 5.0
LOOK_SECONDS = 0.25
WORDS_SECONDS = 1.0
"""Nobody may read our last words, and then writing them blocks."""


class Watchdog:
    """Ends the process when it outlives its stop."""

    def __init__(self, shutdown_seconds: float) -> None:
        self._shutdown_seconds = shutdown_seconds
        self._signals = 0
        self._deadline = float("inf")

    def heard(self) -> None:
        """A signal to stop. Takes no lock: it may interrupt anything."""
        self._signals += 1
        seconds = SECOND_SECONDS if self._signals > 1 else self._shutdown_seconds + GRACE_SECONDS
        self._deadline = min(self._deadline, time.monotonic() + seconds)

    def start(self) -> None:
        """Watch, until the process ends."""
        threading.Thread(target=self._watch, name="streams-watchdog", daemon=True).start()

    def _watch(self) -> None:
        while time.monotonic() < self._deadline:
            time.sleep(LOOK_SECONDS)
        words = "this worker was told to stop and did not; the process ends now, and what it held expires"
        speaker = threading.Thread(target=log.critical, args=(words,), daemon=True)
        speaker.start()
        speaker.join(WORDS_SECONDS)
        os._exit(EXIT_CODE)


@contextmanager
def listening(watchdog: Watchdog, signals: Iterable[signal.Signals]) -> Iterator[None]:
    """Let the watchdog hear signals too, before those who handle them already."""
    handlers = {number: signal.getsignal(number) for number in signals}

    def hear(number: int, frame: FrameType | None) -> None:
        watchdog.heard()
        handler = handlers[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in handlers:
        signal.signal(number, hear)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)

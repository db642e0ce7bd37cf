"""A clock that stands still until a test moves it."""

MICROS = 1_000_000


class Clock:
    """Microseconds since the epoch, as stores take it: `clock=`."""

    def __init__(self) -> None:
        self.now = 1_700_000_000 * MICROS

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move it, backwards too."""
        self.now += round(seconds * MICROS)

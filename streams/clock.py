"""The clock that trust is counted by: it goes on while the machine sleeps."""

import time

TICK_SECONDS = 0.001
"""No timer waits for less: two clocks that differ by a rounding error would wait for each other for ever."""

if hasattr(time, "CLOCK_BOOTTIME"):

    def boottime() -> float:
        """Seconds since boot, time asleep included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:  # macOS: its monotonic clock stands still in sleep, its continuous one is not in the standard library

    def boottime() -> float:
        """Seconds by the monotonic clock."""
        return time.monotonic()

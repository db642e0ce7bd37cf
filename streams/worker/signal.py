"""A flag that one loop waits for and others raise."""

import anyio


class Signal:
    """Raised by anybody, any number of times; one waiter lowers it when it wakes."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def raise_(self) -> None:
        """Wake the waiter, now or when it next waits."""
        self._event.set()

    @property
    def raised(self) -> bool:
        """Whether a wait would return at once."""
        return self._event.is_set()

    async def wait(self, timeout_seconds: float = float("inf")) -> bool:
        """Wait until raised, and lower it; False when the time was over first."""
        with anyio.move_on_after(timeout_seconds):
            await self._event.wait()
        raised = self._event.is_set()
        if raised:
            self._event = anyio.Event()
        return raised

"""What a handler may say of a record besides returning: raised, or returned."""


class Outcome(Exception):
    """A handler's word on its record that is not a failure of the handler."""


class DeadLetter(Outcome):
    """Put the record into the dead letters now, whatever attempts are left."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Discard(Outcome):
    """Settle the record without an effect and without a dead letter."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class RetryLater(Outcome):
    """Try the record again after so many seconds; its key waits, and no attempt is charged."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"in {seconds} s")
        self.seconds = seconds

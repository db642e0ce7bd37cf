"""Wrong usage that only a command itself can see."""


class UsageError(Exception):
    """What was asked for cannot be meant; the program ends with exit code 2."""

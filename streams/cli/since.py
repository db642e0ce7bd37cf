"""Moments on the command line: an age such as `2h`, or a time of ISO 8601."""

import re
from datetime import UTC, datetime, timedelta

from streams.cli.usage import UsageError

AGE = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(text: str, now: datetime) -> datetime:
    """The moment that is meant; a time without a zone is UTC, as all that is printed.

    Raises:
        UsageError: neither an age nor a time.
    """
    try:
        if age := AGE.fullmatch(text):
            return now - timedelta(**{UNITS[age[2]]: float(age[1])})
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"--since {text}: an age such as 90s, 15m, 2h, 7d, or a time such as 2026-01-31T12:00"
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)

"""Database URLs as the command line treats them."""

import re

from streams.errors import SettingsError
from streams.stores import in_memory

_HIDDEN = "***"
_LOGIN = re.compile(r"^(\w+://[^:/?@]*):.*@")
_PARAMETER = re.compile(r"([?&][^=&]*password[^=&]*=)[^&]*", re.IGNORECASE)


def refuse_in_memory(url: str) -> None:
    """Refuse a database that lives inside one process: this one would look at an empty one of its own.

    Raises:
        SettingsError: it is one.
    """
    if in_memory(url):
        raise SettingsError(
            f"{url!r} is an in-memory database: it lives inside one process, so there is none to reach from here; "
            f"let --url or STREAMS_URL name a file or a server, as sqlite:///streams.db"
        )


def without_password(url: str) -> str:
    """A URL as it may be logged. Rather too much of it is hidden than too little."""
    return _PARAMETER.sub(rf"\1{_HIDDEN}", _LOGIN.sub(rf"\1:{_HIDDEN}@", url))

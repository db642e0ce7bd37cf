"""`postgresql://…` URLs: our own parameters, and those that the driver knows."""

from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from streams.errors import SettingsError

_OURS = ("listen", "statement_cache")
_DRIVERS = (
    "application_name",
    "database",
    "dbname",
    "gsslib",
    "host",
    "krbsrvname",
    "passfile",
    "password",
    "port",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslpassword",
    "sslrootcert",
    "target_session_attrs",
    "user",
)
_SWITCH = {"on": True, "off": False}


class PostgresUrl(NamedTuple):
    """A parsed URL. `dsn` is what the driver gets; `place` names the database in messages, without a password."""

    dsn: str
    place: str
    listen: bool
    statement_cache: bool


def parse(url: str) -> PostgresUrl:
    """Parse a URL. Several hosts mean the one that can be written to.

    Raises:
        SettingsError: a parameter that nobody knows or that has a value it cannot have.
    """
    parts = urlsplit(url)
    if _is_torn(parts):
        raise SettingsError(
            "postgresql://…: the URL falls apart, or its port is no number; in a user's name or a password "
            "'/' has to be written %2F, '?' %3F, '#' %23 and '@' %40"
        )
    place = f"{parts.netloc.rpartition('@')[2]}{parts.path}" or "PostgreSQL"
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := sorted(given.keys() - {*_OURS, *_DRIVERS}):
        known = ", ".join(sorted((*_OURS, *_DRIVERS)))
        raise SettingsError(f"postgresql://{place} has the unknown parameter {unknown[0]!r}; known are {known}")
    switches = {}
    for name in _OURS:
        if (value := given.pop(name, "on")) not in _SWITCH:
            raise SettingsError(f"postgresql://{place}: {name}={value!r} is not one of {', '.join(_SWITCH)}")
        switches[name] = _SWITCH[value]
    hosts = given.get("host", parts.netloc.rpartition("@")[2])
    if "," in hosts:
        given.setdefault("target_session_attrs", "read-write")
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(given), ""))
    return PostgresUrl(dsn, place, **switches)


def _is_torn(parts: SplitResult) -> bool:
    """Whether a character of the password may have ended the host's part. Nothing of such a URL may be shown."""
    if parts.fragment or "@" in parts.path:
        return True
    for host in parts.netloc.rpartition("@")[2].split(","):
        name, colon, port = host.rpartition(":")
        if colon and not name.startswith("[") and not (port.isascii() and port.isdigit()):
            return True
    return False

"""Options, with one name each as argument, flag and `STREAMS_…` variable.

Flag beats argument beats environment beats default.
"""

import os
from collections.abc import Mapping
from typing import Any, Literal, get_type_hints

import msgspec

from partition import Rhythm
from streams.errors import SettingsError

PREFIX = "STREAMS_"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All options of an app, each with its default."""

    url: str = "sqlite:///streams.db"
    schema: str = "streams"
    migrate: Literal["auto", "never"] = "auto"
    lease_seconds: float = 10.0
    handover_seconds: float = 60.0
    shutdown_seconds: float = 20.0
    stall_seconds: float = 300.0
    connect_seconds: float = 10.0

    @property
    def lease_micros(self) -> int:
        """The time to live as the stores keep it."""
        return round(self.lease_seconds * 1_000_000)


def resolve(flags: Mapping[str, object], arguments: Mapping[str, object]) -> Settings:
    """The settings in force: what is None was not given.

    Raises:
        SettingsError: a value that cannot be, or that cannot work.
    """
    given: dict[str, Any] = {}
    for name, kind in get_type_hints(Settings).items():
        variable = PREFIX + name.upper()
        for value in (flags.get(name), arguments.get(name), os.environ.get(variable) or None):
            if value is not None:
                given[name] = _converted(name, value, kind, variable)
                break
    settings = Settings(**given)
    _check(settings)
    return settings


def _converted(name: str, value: object, kind: Any, variable: str) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False)
    except ValueError as error:  # msgspec's, or that of a variable which is not UTF-8
        flag = name.replace("_", "-")
        raise SettingsError(f"{name}={value!r}: {error} (argument {name}, --{flag} or ${variable})") from error


def _check(settings: Settings) -> None:
    try:
        Rhythm.of(settings.lease_seconds)
    except ValueError as error:
        raise SettingsError(f"lease_seconds={settings.lease_seconds:g}: {error}") from error
    for name in ("handover_seconds", "shutdown_seconds", "stall_seconds", "connect_seconds"):
        value = getattr(settings, name)
        if not 0 < value <= 86_400:
            raise SettingsError(f"{name}={value:g} is not a number of seconds above 0 and up to 86400")
    if settings.stall_seconds < settings.lease_seconds:
        raise SettingsError(
            f"stall_seconds={settings.stall_seconds:g} is shorter than lease_seconds={settings.lease_seconds:g}: "
            f"a worker would end itself over a handler that its lease outlives"
        )

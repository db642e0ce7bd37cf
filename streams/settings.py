"""Options, with one name each as argument, flag and `STREAMS_…` variable.

Flag beats argument beats environment beats default.
"""

import os
from collections.abc import Mapping
from typing import Any, Literal

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
    for name in Settings.__struct_fields__:
        for layer in (flags.get(name), arguments.get(name), os.environ.get(PREFIX + name.upper()) or None):
            if layer is not None:
                given[name] = layer
                break
    try:
        settings = msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"settings: {error} (as argument, --flag or {PREFIX}… variable)") from error
    _check(settings)
    return settings


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

"""Options that several commands have. What was not given is None, and never the default."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from streams import Streams
from streams.admin import Admin
from streams.cli.logs import Format, Level, configure
from streams.cli.url import refuse_in_memory

T = TypeVar("T")

Json = Annotated[bool, Parameter(name="--json", negative="", show_default=False, help="Print JSON.")]
Seconds = float | None


@Parameter(name="*")
@dataclass(frozen=True)
class Database:
    """Where to look."""

    url: Annotated[
        str | None, Parameter(help="The database; else STREAMS_URL, else sqlite:///streams.db.", metavar="URL")
    ] = None
    schema: Annotated[str | None, Parameter(help="The prefix or schema of its tables; else STREAMS_SCHEMA.")] = None

    def given(self) -> dict[str, Any]:
        """The settings that were given as flags."""
        every = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in every.items() if value is not None}

    def app(self, *, migrate: Literal["auto", "never"]) -> Streams:
        """An app without declarations on this database, not yet entered.

        Raises:
            SettingsError: a value that cannot be, or an in-memory database.
        """
        app = Streams()
        app._flags.update(self.given(), migrate=migrate)
        refuse_in_memory(app.settings.url)
        return app

    async def ask(self, question: Callable[[Admin], Awaitable[T]]) -> T:
        """An answer from the database; nothing is made on the way."""
        async with self.app(migrate="never") as app:
            return await question(app.admin)


@Parameter(name="*")
@dataclass(frozen=True)
class WorkerSettings(Database):
    """All settings of an app, as flags."""

    migrate: Annotated[Literal["auto", "never"] | None, Parameter(help="Whether missing tables are made.")] = None
    lease_seconds: Annotated[Seconds, Parameter(help="How long a silent worker keeps its partitions.")] = None
    handover_seconds: Annotated[
        Seconds, Parameter(help="How long a partition that moves waits for its running handlers.")
    ] = None
    shutdown_seconds: Annotated[Seconds, Parameter(help="How long a stopping worker may take.")] = None
    stall_seconds: Annotated[
        Seconds, Parameter(help="How long the event loop may stand still before the process ends itself.")
    ] = None
    connect_seconds: Annotated[Seconds, Parameter(help="How long entering waits for an absent database.")] = None


@Parameter(name="*")
@dataclass(frozen=True)
class Logging:
    """What is logged, and how."""

    log_level: Annotated[
        Level | None,
        Parameter(env_var="STREAMS_LOG_LEVEL", help="From this level on; a worker: info, else: warning."),
    ] = None
    log_format: Annotated[Format, Parameter(env_var="STREAMS_LOG_FORMAT", help="Lines of text, or of JSON.")] = "text"

    def set_up(self, level: Level = "warning") -> None:
        """Log to stderr, from `level` on unless another was given."""
        configure(self.log_level or level, self.log_format)


DATABASE = Database()
WORKER_SETTINGS = WorkerSettings()
LOGGING = Logging()

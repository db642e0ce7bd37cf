"""Every error that streams raises on purpose.

::

    StreamsError
    ├── SettingsError            an option, URL or declaration that cannot work
    ├── NotEntered               the app is not open here: outside `async with app`, after a fork, in another event loop
    ├── MigrationNeeded          the database has no schema, or one that this version cannot use
    ├── UnknownTopic
    ├── TopicMismatch            code and database disagree about a topic
    ├── InvalidName              of a topic or group                   (also a ValueError)
    ├── InvalidKey                                                     (also a ValueError)
    ├── InvalidPayload                                                 (also a ValueError)
    │   └── PayloadTooLarge
    ├── InvalidHeaders                                                 (also a ValueError)
    ├── InvalidConnection        `connection=` cannot carry a publish  (also a ValueError)
    ├── PublishFailed            not all of a `publish_many` was written
    ├── PublishUncertain         the answer to a commit was lost
    ├── StoreUnavailable         the database does not answer
    │   └── StoreBusy            its write lock stayed taken
    ├── LeaseLost                the partition may belong to another member now
    └── PositionBeyondLog        a group's position is past all that was ever published

A message says what to do next, and never holds a payload.
"""


class StreamsError(Exception):
    """The root of all errors here."""

    def __reduce__(self) -> tuple[object, ...]:
        """Errors cross processes, though the constructors of some take other arguments than the message."""
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[StreamsError], args: tuple[object, ...], attributes: dict[str, object]) -> StreamsError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class SettingsError(StreamsError):
    """An option, URL or declaration that cannot work."""


class NotEntered(StreamsError):
    """The app is not open here: outside `async with app`, after a fork, or in another event loop."""


class MigrationNeeded(StreamsError):
    """The database has no schema, or one that this version cannot use."""


class UnknownTopic(StreamsError):
    """No such topic is declared in this app, or none exists in the database."""

    def __init__(self, topic: str, message: str) -> None:
        super().__init__(message)
        self.topic = topic


class TopicMismatch(StreamsError):
    """Code and database disagree about a topic; the database's row is the truth."""

    def __init__(self, topic: str, setting: str, *, code: object, database: object) -> None:
        super().__init__(
            f"topic {topic!r}: the code says {setting}={code!r}, the database says {setting}={database!r}; "
            f"declare it with {setting}={database!r}, or use another name for a new topic"
        )
        self.topic = topic
        self.setting = setting
        self.code = code
        self.database = database


class InvalidName(StreamsError, ValueError):
    """A name of a topic or group that is not allowed."""


class InvalidKey(StreamsError, ValueError):
    """A key that cannot be stored."""


class InvalidPayload(StreamsError, ValueError):
    """A payload that does not have the topic's type, or would not come back as it went in."""


class PayloadTooLarge(InvalidPayload):
    """An encoded payload above the topic's `max_payload` bytes."""

    def __init__(self, topic: str, size: int, limit: int) -> None:
        super().__init__(
            f"topic {topic!r}: the payload has {size:,} bytes encoded, the limit is {limit:,}; "
            f"raise max_payload= of the topic, or store it elsewhere and publish a reference"
        )
        self.topic = topic
        self.size = size
        self.limit = limit


class InvalidHeaders(StreamsError, ValueError):
    """Headers that are not a small dict of str to str."""


class InvalidConnection(StreamsError, ValueError):
    """A `connection=` that is not an open transaction on the app's own database."""


class PublishFailed(StreamsError):
    """A `publish_many` ended early: `written` items are durable, of each key the first. The cause is chained."""

    def __init__(self, message: str, *, written: int) -> None:
        super().__init__(message)
        self.written = written


class PublishUncertain(StreamsError):
    """The commit was sent and its answer lost: the records may be durable or not.

    Look before publishing again, or let handlers be idempotent. `written` counts the items of a `publish_many` that are
    durable for sure.
    """

    def __init__(self, message: str, *, written: int = 0) -> None:
        super().__init__(message)
        self.written = written


class StoreUnavailable(StreamsError):
    """The database does not answer; nothing was written, but for the `written` records that an earlier write held."""

    def __init__(self, message: str, *, written: int = 0) -> None:
        super().__init__(message)
        self.written = written


class StoreBusy(StoreUnavailable):
    """The database's write lock stayed taken for `busy_seconds`; nothing was written."""


class LeaseLost(StreamsError):
    """The partition may belong to another member now; nothing of this attempt is recorded."""


class PositionBeyondLog(StreamsError):
    """A group's position is past all that was ever published: the log was cut or restored behind its back."""

    def __init__(self, group: str, topic: str, partition: int, position: int, end: int) -> None:
        super().__init__(
            f"group {group!r} is at {position} in {topic!r} partition {partition}, but the log ends at {end}: it was "
            f"restored from an older copy or cut by hand; the partition stays stopped until its position is repaired"
        )
        self.group = group
        self.topic = topic
        self.partition = partition
        self.position = position
        self.end = end

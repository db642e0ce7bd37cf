"""Ordered stream processing on the database you already run."""

from streams.app import Streams
from streams.context import Context
from streams.errors import (
    InvalidConnection,
    InvalidHeaders,
    InvalidKey,
    InvalidName,
    InvalidPayload,
    LeaseLost,
    MigrationNeeded,
    NotEntered,
    PayloadTooLarge,
    PositionBeyondLog,
    PublishFailed,
    PublishUncertain,
    SettingsError,
    StoreBusy,
    StoreUnavailable,
    StreamsError,
    TopicMismatch,
    UnknownTopic,
)
from streams.outcome import DeadLetter, Discard, RetryLater
from streams.record import Receipt
from streams.retry import Retry
from streams.topic import Topic

__all__ = [
    "Context",
    "DeadLetter",
    "Discard",
    "InvalidConnection",
    "InvalidHeaders",
    "InvalidKey",
    "InvalidName",
    "InvalidPayload",
    "LeaseLost",
    "MigrationNeeded",
    "NotEntered",
    "PayloadTooLarge",
    "PositionBeyondLog",
    "PublishFailed",
    "PublishUncertain",
    "Receipt",
    "Retry",
    "RetryLater",
    "SettingsError",
    "StoreBusy",
    "StoreUnavailable",
    "Streams",
    "StreamsError",
    "Topic",
    "TopicMismatch",
    "UnknownTopic",
]

"""The app: topics, subscriptions, publishing and working, on one database."""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

import anyio
from anyio.lowlevel import EventLoopToken, current_token

from partition import Order
from streams.admin import Admin
from streams.batch import Batch
from streams.codec import CodecName
from streams.errors import (
    NotEntered,
    PublishFailed,
    PublishUncertain,
    SettingsError,
    StoreUnavailable,
    StreamsError,
    UnknownTopic,
)
from streams.publisher import Publisher, agreed_id
from streams.record import Key, Receipt
from streams.retry import DEFAULT_RETRY, Retry
from streams.settings import Settings, resolve
from streams.stores import Store, in_memory, open_store
from streams.stores.rows import Publication
from streams.subscription import Subscription, subscription
from streams.topic import MAX_PAYLOAD, Items, Prepared, Start, Subscribe, Topic
from streams.worker import Worker

T = TypeVar("T")

_inherited: list[object] = []
"""What a parent process had open when this one was forked. To close it here would damage it there."""


class _Session:
    """What an app has while it is entered: the open store and the publisher."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.publisher = Publisher(store)
        self.token: EventLoopToken = current_token()
        self.pid = os.getpid()


class Streams:
    """Topics and their handlers on one database.

    `url` is `sqlite:///relative.db`, `sqlite:////absolute.db` or `memory://`; without one, `$STREAMS_URL`, else
    `sqlite:///streams.db`. `lease_seconds` (at least 1) is how long a silent worker keeps its partitions;
    `handover_seconds` how long a partition that moves waits for its running handlers; `shutdown_seconds` how long a
    stopping worker may take; `stall_seconds` how long its event loop may stand still before the process ends itself;
    `connect_seconds` how long entering waits for an absent database. `migrate="never"` makes no tables.

    Publishing needs `async with app`; working enters by itself.
    """

    def __init__(
        self,
        url: str | None = None,
        /,
        *,
        schema: str | None = None,
        migrate: Literal["auto", "never"] | None = None,
        lease_seconds: float | None = None,
        handover_seconds: float | None = None,
        shutdown_seconds: float | None = None,
        stall_seconds: float | None = None,
        connect_seconds: float | None = None,
    ) -> None:
        self._arguments: dict[str, object] = {
            "url": url,
            "schema": schema,
            "migrate": migrate,
            "lease_seconds": lease_seconds,
            "handover_seconds": handover_seconds,
            "shutdown_seconds": shutdown_seconds,
            "stall_seconds": stall_seconds,
            "connect_seconds": connect_seconds,
        }
        self._flags: dict[str, object] = {}
        self._topics: dict[str, Topic[Any]] = {}
        self._subscriptions: dict[tuple[str, str], Subscription] = {}
        self._store: Store | None = None
        self._store_place = ("", "", 0)  # URL, schema, process
        self._entered_by: int | None = None  # the process
        self._session: _Session | None = None
        self._exit: AsyncExitStack | None = None
        self.admin = Admin(lambda: self._entered().store)
        resolve({}, self._arguments)

    @property
    def settings(self) -> Settings:
        """The settings in force: flag beats argument beats environment beats default."""
        return resolve(self._flags, self._arguments)

    # Declaring

    @overload
    def topic(
        self,
        name: str,
        type: type[T],
        *,
        partitions: int = 8,
        max_payload: int = MAX_PAYLOAD,
        codec: CodecName | None = None,
    ) -> Topic[T]: ...

    @overload
    def topic(
        self,
        name: str,
        type: Any,
        *,
        partitions: int = 8,
        max_payload: int = MAX_PAYLOAD,
        codec: CodecName | None = None,
    ) -> Topic[Any]: ...

    def topic(
        self,
        name: str,
        type: Any,
        *,
        partitions: int = 8,
        max_payload: int = MAX_PAYLOAD,
        codec: CodecName | None = None,
    ) -> Topic[Any]:
        """Declare a topic. Its row is made when it is first used; an existing row has to agree.

        `type` is what its payloads are: a msgspec Struct, dataclass, TypedDict, attrs class, a tagged union of such, or
        a builtin. `max_payload` bounds the encoded payload in bytes.

        Raises:
            InvalidName, SettingsError: a name, number or type that cannot be; a name declared already.
        """
        made: Topic[Any] = Topic(self, name, type, partitions=partitions, max_payload=max_payload, codec=codec)
        if name in self._topics:
            raise SettingsError(
                f"topic {name!r} is declared twice; keep the first declaration and use what it returned"
            )
        self._topics[name] = made
        return made

    @overload
    def subscribe(
        self,
        topic: Topic[T],
        *,
        group: str,
        start: Start = "earliest",
        order: Order = "key",
        concurrency: int = 64,
        retry: Retry = DEFAULT_RETRY,
    ) -> Subscribe[T]: ...

    @overload
    def subscribe(
        self,
        topic: str,
        *,
        group: str,
        start: Start = "earliest",
        order: Order = "key",
        concurrency: int = 64,
        retry: Retry = DEFAULT_RETRY,
    ) -> Subscribe[Any]: ...

    def subscribe(
        self,
        topic: str | Topic[Any],
        *,
        group: str,
        start: Start = "earliest",
        order: Order = "key",
        concurrency: int = 64,
        retry: Retry = DEFAULT_RETRY,
    ) -> Subscribe[Any]:
        """Make the decorated `async def` the handler of a group of a topic.

        The handler gets the payload, and as a second parameter the `Context` if it asks for it. `start` counts when the
        group is first made. `order`: records of a key one at a time and in order, or of a whole partition, or in none.
        `concurrency` is how many records of this subscription a worker handles at once.

        Raises:
            UnknownTopic: no topic of that name is declared yet.
            SettingsError, InvalidName: an option or handler that cannot be; the pair of group and topic is taken.
        """
        declared = self._declared(topic)

        def register(handler: Callable[..., Awaitable[Any]]) -> None:
            made = subscription(
                declared, handler, group=group, start=start, order=order, concurrency=concurrency, retry=retry
            )
            if made.pair in self._subscriptions:
                raise SettingsError(
                    f"group {group!r} of topic {declared.name!r} has a handler already; use another group"
                )
            self._subscriptions[made.pair] = made

        return Subscribe(register)

    # Entering

    async def __aenter__(self) -> Self:
        if self._entered_by == os.getpid():
            raise StreamsError("the app is entered already; enter it once, and share it between tasks")
        if self._session is not None:
            _inherited.append((self._session, self._exit))
        self._session, self._entered_by = None, os.getpid()
        try:
            await self._enter(self.settings)
        except BaseException:
            self._entered_by = None
            raise
        return self

    async def _enter(self, settings: Settings) -> None:
        async with AsyncExitStack() as stack:
            store = await self._open(settings)
            stack.push_async_callback(store.close)
            session = _Session(store)
            group = await stack.enter_async_context(anyio.create_task_group())
            group.start_soon(session.publisher.run, name="streams publisher")
            stack.callback(session.publisher.close)
            stack.callback(self._leave)
            self._session = session
            self._exit = stack.pop_all()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close; an exception of the block passes as it is, not wrapped by our task group."""
        assert self._exit is not None
        stack, self._exit = self._exit, None
        try:
            await stack.aclose()
        finally:
            self._entered_by = None

    async def _open(self, settings: Settings) -> Store:
        """Open the store, waiting `connect_seconds` for an absent database. One in memory is kept between entries."""
        place = settings.url, settings.schema, os.getpid()
        if self._store is None or self._store_place[:2] != place[:2] or not in_memory(settings.url):
            self._store, self._store_place = open_store(settings.url, schema=settings.schema), place
        elif self._store_place != place:
            raise SettingsError(
                f"{settings.url} serves the process that it was first entered in; use sqlite:///file.db"
            )
        deadline = anyio.current_time() + settings.connect_seconds
        while True:
            try:
                await self._store.open(migrate=settings.migrate == "auto", create=settings.migrate == "auto")
                return self._store
            except StoreUnavailable:
                if anyio.current_time() > deadline:
                    raise
            await anyio.sleep(0.25)

    def _leave(self) -> None:
        self._session = None

    def _entered(self) -> _Session:
        session = self._session
        if session is None:
            raise NotEntered("the app is not entered: publish inside `async with app:`")
        if session.pid != os.getpid():
            raise NotEntered("the app was entered before this process was forked; enter it in the child")
        if session.token != current_token():
            raise NotEntered("the app was entered in another event loop; enter an app of its own in this one")
        return session

    # Publishing

    async def publish(
        self,
        topic: str | Topic[T],
        key: Key,
        payload: T,
        *,
        headers: Mapping[str, str] | None = None,
        connection: object = None,
    ) -> Receipt:
        """Publish one record; it is durable when this returns.

        With `connection`, the caller's own open transaction on the same database (a `sqlite3.Connection`), the record
        commits or vanishes with it, and the driver's errors reach the caller unchanged.

        Raises:
            UnknownTopic, InvalidKey, InvalidPayload, PayloadTooLarge, InvalidHeaders, InvalidConnection: nothing was
                written, and no offset is burnt.
            TopicMismatch: the database's topic has another partition count or codec.
            NotEntered: outside `async with app`.
            StoreBusy, StoreUnavailable: the database cannot be written to; nothing was written.
            PublishUncertain: the answer to the commit was lost; never retried here.
        """
        session = self._entered()
        declared = self._declared(topic)
        prepared = declared.prepare(key, payload, headers)
        (offset,) = await self._append(session, declared, [prepared], connection)
        return Receipt(declared.name, prepared.partition, offset)

    async def publish_many(self, topic: str | Topic[T], items: Items[T], *, connection: object = None) -> int:
        """Publish `(key, payload)` or `(key, payload, headers)` items of any iterable, sync or async; how many were.

        Memory is bounded: they are written by the thousand, each batch in one transaction. So it is not atomic: when it
        ends early, of each key a prefix is durable. With `connection` it is: either all of them are in the caller's
        transaction or none, and whatever was raised passes as it is.

        Raises:
            PublishFailed: an item, the iterable (its cause is chained) or the database failed: `written` items are
                durable, of each key the first.
            PublishUncertain: the answer to a commit was lost.
        """
        session = self._entered()
        declared = self._declared(topic)
        batch = Batch(declared, lambda records: self._append(session, declared, records, connection))
        if connection is not None:
            async with session.store.within(connection).whole():
                await batch.publish(items)
            return batch.written
        try:
            await batch.publish(items)
        except PublishUncertain as error:
            raise PublishUncertain(f"{error}; before it, {batch.written:,} were", written=batch.written) from error
        except Exception as error:
            reason = error if isinstance(error, StreamsError) else type(error).__name__
            raise PublishFailed(
                f"topic {declared.name!r}: {batch.written:,} items were written; at item {batch.at:,}: {reason}",
                written=batch.written,
            ) from error
        return batch.written

    async def _append(
        self, session: _Session, topic: Topic[Any], records: Sequence[Prepared], connection: object
    ) -> list[int]:
        if connection is not None:
            appender = session.store.within(connection)
            # A row that this transaction makes may vanish with it, so it is not remembered.
            topic_id = session.publisher.topic_ids.get(topic.name) or await agreed_id(appender, topic)
            return await appender.append([record.on(topic_id) for record in records])
        return await session.publisher.append(topic, records)

    def _declared(self, topic: str | Topic[Any]) -> Topic[Any]:
        name = topic.name if isinstance(topic, Topic) else topic
        declared = self._topics.get(name)
        if declared is None or (declared is not topic and isinstance(topic, Topic)):
            known = ", ".join(sorted(self._topics)) or "none"
            raise UnknownTopic(
                str(name),
                f"topic {name!r} is not declared in this app (declared: {known}); declare it with app.topic()",
            )
        return declared

    def _prepare(
        self, topic: str | Topic[Any], key: Key, payload: Any, headers: Mapping[str, str] | None
    ) -> Publication:
        """A record for a settlement; the topics' rows are known since the worker started."""
        declared = self._declared(topic)
        topic_id = self._entered().publisher.topic_ids.get(declared.name)
        if topic_id is None:
            raise UnknownTopic(
                declared.name, f"topic {declared.name!r} was declared after the worker started; declare it before"
            )
        return declared.prepare(key, payload, headers).on(topic_id)

    # Working

    async def work(
        self,
        *,
        topics: Iterable[str] | None = None,
        groups: Iterable[str] | None = None,
        until_idle: bool = False,
    ) -> None:
        """Run the handlers, sharing the partitions with other workers, until cancelled.

        `topics` and `groups` choose among the subscriptions. With `until_idle` it returns when nothing is left to
        handle. Cancelling stops at once and hands the partitions back. Signals are left alone.

        Raises:
            SettingsError: no subscription is chosen.
        """
        await self._work(anyio.Event(), topics=topics, groups=groups, until_idle=until_idle)

    async def _work(
        self,
        stop: anyio.Event,
        *,
        topics: Iterable[str] | None = None,
        groups: Iterable[str] | None = None,
        until_idle: bool = False,
    ) -> bool:
        """Work until `stop` is set, then drain; whether the drain ended in time."""
        if self._session is None:
            async with self:
                return await self._work(stop, topics=topics, groups=groups, until_idle=until_idle)
        session = self._entered()
        chosen = self._choose(topics, groups)
        for topic in self._topics.values():
            await session.publisher.topic_id(topic)
        topic_ids = session.publisher.topic_ids
        worker = Worker(session.store, chosen, self.settings, prepare=self._prepare, topic_ids=topic_ids)
        return await worker.run(stop, until_idle=until_idle)

    def _choose(self, topics: Iterable[str] | None, groups: Iterable[str] | None) -> list[Subscription]:
        only_topics = None if topics is None else set(topics)
        only_groups = None if groups is None else set(groups)
        for kind, names, known in (
            ("topics", only_topics, {topic for _, topic in self._subscriptions}),
            ("groups", only_groups, {group for group, _ in self._subscriptions}),
        ):
            if unknown := sorted((names or set()) - known):
                subscribed = ", ".join(sorted(known)) or "none"
                raise SettingsError(f"{kind}={unknown!r}: this app has no such subscription, only {subscribed}")
        chosen = [
            subscription
            for subscription in self._subscriptions.values()
            if (only_topics is None or subscription.topic.name in only_topics)
            and (only_groups is None or subscription.group in only_groups)
        ]
        if not chosen:
            pairs = ", ".join(f"{group} of {topic}" for group, topic in self._subscriptions) or "none"
            raise SettingsError(f"there is nothing to work on; subscriptions of this app: {pairs}")
        return chosen

"""Running handlers: runners take ready lanes and run their records one after another.

A subscription has up to `concurrency` runners, started when they are first needed. A runner takes the next partition
that has ready lanes, and of it the next lane: partitions take turns, so a hot one delays the others by one lane. It
stays with a lane for a bounded turn, so a hot key delays others by a turn. No task, scope or statement is made per
record.
"""

import heapq
import logging
from collections import deque
from collections.abc import Callable
from itertools import count

import anyio
from anyio import CancelScope, lowlevel
from anyio.abc import TaskGroup

from partition import Lane
from streams.clock import TICK_SECONDS, boottime
from streams.context import Context, Prepare
from streams.outcome import DeadLetter as DeadLetterOutcome
from streams.outcome import Discard, Outcome, RetryLater
from streams.retry import bounded_seconds
from streams.stores.rows import DeadLetter, Publication, Record
from streams.subscription import Subscription
from streams.worker.actor import Actor
from streams.worker.cancellation import is_cancellation, is_cancelled, take_back_foreign
from streams.worker.description import describe, describe_traceback
from streams.worker.signal import Signal

log = logging.getLogger("streams")

TURN_SECONDS = 0.002
FOREIGN_SECONDS = 1.0
"""So long a record waits when other code has cancelled its handler's task."""

NOTHING: list[Publication] = []


class Runner:
    """One handler at a time. `lane` and `started` are those of the record that is being handled."""

    __slots__ = ("actor", "lane", "scope", "started")

    def __init__(self) -> None:
        self.actor: Actor | None = None
        self.lane: Lane[Record] | None = None
        self.started = 0.0
        self.scope = CancelScope()


class Dispatcher:
    """The runners of one subscription, over all partitions that this process holds of it."""

    def __init__(
        self,
        subscription: Subscription,
        group: TaskGroup,
        *,
        prepare: Prepare,
        clock: Callable[[], float] = boottime,
        withholds: bool = False,
    ) -> None:
        self._withholds = withholds
        self.subscription = subscription
        self.current: dict[int, Actor] = {}
        self._group = group
        self._prepare = prepare
        self._clock = clock
        self._ready: deque[Actor] = deque()
        self._idle: deque[anyio.Event] = deque()
        self._runners: list[Runner] = []
        self._later: list[tuple[float, int, Actor, Lane[Record]]] = []
        self._later_changed = Signal()
        self._ties = count()
        self._waking = False  # is a runner on its way that has not looked yet?
        self._resting = 0  # runners that let the loop turn, and then go on; nobody is to take a turn meanwhile

    def offer(self, actor: Actor) -> None:
        """A partition has ready lanes."""
        if not actor.offered and actor.taking and actor.window.ready:
            actor.offered = True
            self._ready.append(actor)
            self._wake()

    def forget(self, actor: Actor) -> None:
        """A partition that is over: nothing waits for it any more."""
        if self.current.get(actor.lease.partition) is actor:
            del self.current[actor.lease.partition]
        self._later = [later for later in self._later if later[2] is not actor]
        heapq.heapify(self._later)

    def busy(self, actor: Actor) -> list[Runner]:
        """The runners that handle a record of this partition."""
        return [runner for runner in self._runners if runner.actor is actor]

    def barred(self, partition: int) -> set[str]:
        """Lanes of a partition in which a handler of an earlier epoch still runs."""
        return {
            runner.lane.name
            for runner in self._runners
            if runner.actor is not None
            and runner.actor.lease.partition == partition
            and runner.lane is not None
            and runner.lane.name is not None
        }

    def cancel(self, actor: Actor) -> None:
        """Cancel what runs of a partition. Nobody is charged."""
        for runner in self.busy(actor):
            runner.scope.cancel()

    async def run_later(self) -> None:
        """Put lanes back into their queues when their heads are due again."""
        while True:
            now = self._clock()
            while self._later and self._later[0][0] <= now:
                _, _, actor, lane = heapq.heappop(self._later)
                if not actor.closed:
                    actor.window.give_back(lane)
                    self.offer(actor)
            rest = self._later[0][0] - now if self._later else float("inf")
            await self._later_changed.wait(max(rest, TICK_SECONDS))

    def _wake(self) -> None:
        """Let one more runner look for work; one is on its way at a time, and wakes the next when there is more."""
        if self._waking:
            return
        if self._idle:
            self._waking = True
            self._idle.popleft().set()
        elif len(self._runners) < self.subscription.concurrency:
            self._waking = True
            runner = Runner()
            self._runners.append(runner)
            self._group.start_soon(self._run, runner, name=f"streams runner of {self.subscription.pair}")

    async def _run(self, runner: Runner) -> None:
        self._waking = False
        try:
            while True:
                with CancelScope() as runner.scope:
                    await self._serve(runner)
        finally:
            self._runners.remove(runner)

    async def _serve(self, runner: Runner) -> None:
        """Take lanes until this runner's scope is cancelled, along with what it runs."""
        turn_ends = self._clock() + TURN_SECONDS
        idle = self._resting > 0
        while not runner.scope.cancel_called:
            while idle or not self._ready:
                event = anyio.Event()
                self._idle.append(event)
                try:
                    await event.wait()
                finally:
                    if event.is_set():
                        self._waking = False
                    else:
                        self._idle.remove(event)
                idle = self._resting > 0
                turn_ends = self._clock() + TURN_SECONDS
            actor = self._ready.popleft()
            actor.offered = False
            if not actor.may_start(self._clock()) or (lane := actor.window.take()) is None:
                continue
            self.offer(actor)
            if self._ready:
                self._wake()
            if await self._run_lane(runner, actor, lane, turn_ends):
                self._resting += 1
                try:
                    await lowlevel.checkpoint()
                finally:
                    self._resting -= 1
                turn_ends = self._clock() + TURN_SECONDS

    async def _run_lane(self, runner: Runner, actor: Actor, lane: Lane[Record], turn_ends: float) -> bool:
        """Run the records of a lane one after another; True when the turn is over and others are to be let in."""
        decode = self.subscription.topic.codec.decode
        handler = self.subscription.handler
        wants_context = self.subscription.wants_context
        while True:
            now = self._clock()
            if not actor.may_start(now) or runner.scope.cancel_called:
                if not actor.closed:
                    actor.window.give_back(lane)
                    self.offer(actor)
                return now >= turn_ends
            if now >= turn_ends:
                actor.window.give_back(lane)
                self.offer(actor)
                return True
            record = lane.items[0]
            if actor.restored and record.offset in actor.restored and (due := actor.restore(lane)) > now:
                self._hold_until(actor, lane, due)
                return False
            try:
                payload = decode(record.payload)
            except Exception as error:
                more = self._bury(actor, lane, error, "undecodable")
            else:
                runner.actor, runner.lane, runner.started = actor, lane, now
                actor.running += 1
                context = self._context(actor, lane, record) if wants_context else None
                failure: BaseException | None = None
                try:
                    result = await (handler(payload) if context is None else handler(payload, context))
                    if isinstance(result, Outcome):
                        failure = result
                except BaseException as error:
                    if is_cancellation(error):
                        raise
                    failure = error
                    if take_back_foreign(error):
                        log.warning("%s offset %d: its task was cancelled by other code", actor, record.offset)
                        failure = RetryLater(FOREIGN_SECONDS)
                finally:
                    self._ended(runner, actor, lane)
                    if context is not None:
                        context.close()
                if actor.closed or (failure is not None and is_cancelled()):
                    return True
                if failure is None:
                    outbox = NOTHING if context is None else context.outbox
                    if outbox and self._withholds:
                        actor.settle_when_committed(lane, outbox)
                        more = False
                    else:
                        more = actor.settle(lane, outbox)
                else:
                    more = self._failed(actor, lane, failure)
            if not more:
                return self._clock() >= turn_ends

    def _context(self, actor: Actor, lane: Lane[Record], record: Record) -> Context:
        lease = actor.lease
        return Context(
            record,
            topic=lease.topic,
            partition=lease.partition,
            group=lease.group,
            epoch=lease.epoch,
            attempt=lane.attempts + 1,
            attempts=self.subscription.retry.attempts,
            prepare=self._prepare,
            lease_lost=lambda: actor.closed or self._clock() >= actor.heart.trust_until,
        )

    def _ended(self, runner: Runner, actor: Actor, lane: Lane[Record]) -> None:
        """A handler has ended, however: whoever waits for that is told."""
        runner.actor = runner.lane = None
        actor.running -= 1
        if actor.running == 0:
            actor.quiet.set()
        if actor.closed and lane.name is not None:
            successor = self.current.get(actor.lease.partition)
            if successor is not None and lane.name not in self.barred(actor.lease.partition):
                successor.window.unbar(lane.name)
                self.offer(successor)

    def _failed(self, actor: Actor, lane: Lane[Record], error: BaseException) -> bool:
        """What follows when a handler did not simply return; whether the lane goes on now."""
        retry = self.subscription.retry
        match error:
            case Discard():
                log.info("%s offset %d: discarded: %s", actor, lane.head.offset, error.reason)
                return actor.settle(lane, NOTHING)
            case DeadLetterOutcome():
                lane.attempts += 1
                return self._bury(actor, lane, error, "rejected")
        now = self._clock()
        if lane.attempts == 0:
            lane.since = now
        if isinstance(error, RetryLater):
            self._hold(actor, lane, now + bounded_seconds(error.seconds, 1.0), error)
            return False
        lane.attempts += 1
        if retry.exhausted(lane.attempts, error, now - lane.since):
            return self._bury(actor, lane, error, "exhausted")
        seconds = retry.draw_seconds(lane.attempts, error, now - lane.since)
        log.warning(
            "%s offset %d: attempt %d of %d failed and is repeated in %.1f s",
            actor,
            lane.head.offset,
            lane.attempts,
            retry.attempts,
            seconds,
            exc_info=error,
        )
        self._hold(actor, lane, now + seconds, error)
        return False

    def _hold(self, actor: Actor, lane: Lane[Record], due: float, error: BaseException) -> None:
        """Try a lane's head again when it is due; that and its attempts survive this process."""
        actor.park(lane, due, describe(error))
        self._hold_until(actor, lane, due)

    def _hold_until(self, actor: Actor, lane: Lane[Record], due: float) -> None:
        actor.window.hold(lane)
        heapq.heappush(self._later, (due, next(self._ties), actor, lane))
        self._later_changed.raise_()

    def _bury(self, actor: Actor, lane: Lane[Record], error: BaseException, cause: str) -> bool:
        """The one way in which a record becomes dead; the lane goes on."""
        record, lease = lane.head, actor.lease
        letter = DeadLetter(
            group=lease.group,
            topic=lease.topic,
            partition=lease.partition,
            offset=record.offset,
            key=record.key,
            payload=record.payload,
            headers=record.headers,
            published_at=record.published_at,
            attempts=lane.attempts,
            cause=cause,
            error=describe(error),
            traceback=describe_traceback(error),
        )
        actor.dead.append(letter)
        log.error(
            "%s offset %d: %s after %d attempts, now in the dead letters",
            actor,
            record.offset,
            cause,
            lane.attempts,
            exc_info=error if cause == "exhausted" else None,
        )
        return actor.settle(lane, NOTHING)

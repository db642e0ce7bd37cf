"""When a failed record is tried again, and when no more.

The default wait is full jitter (Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog 2015): uniform in
`[0, min(1 h, 0.5 s * 2**(attempt - 1))]`. Strategies of tenacity are used as policy only: `wait(state)` and
`stop(state)` are called as pure functions, since an attempt here may be made by another process than the one before.
"""

import inspect
import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from tenacity import Future, RetryCallState

from streams.errors import SettingsError

log = logging.getLogger("streams")

LONGEST_WAIT_SECONDS = 30 * 86_400.0
CAP_SECONDS = 3600.0
FIRST_SECONDS = 0.5

State = RetryCallState
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a failing record is tried, and how long between.

    `attempts` counts the first one too. `wait` and `stop` are tenacity strategies (`tenacity.wait_exponential(max=60)`,
    `tenacity.stop_after_delay(3600)`); without `wait` it is full jitter from half a second up to an hour.
    """

    attempts: int = 12
    wait: Callable[[State], float] | None = None
    stop: Callable[[State], bool] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int) or self.attempts < 1:
            raise SettingsError(f"Retry(attempts={self.attempts!r}): at least 1, the first attempt counts")
        for name in ("wait", "stop"):
            strategy = getattr(self, name)
            if strategy is not None and (not callable(strategy) or inspect.iscoroutinefunction(strategy)):
                raise SettingsError(f"Retry({name}=…): a tenacity strategy or a plain function of its state")

    def exhausted(self, attempt: int, error: BaseException, elapsed_seconds: float) -> bool:
        """Whether the attempt that just failed, counted from 1, was the last."""
        if attempt >= self.attempts:
            return True
        return self.stop is not None and self._ask(self.stop, bool, attempt, error, elapsed_seconds, False)

    def draw_seconds(self, attempt: int, error: BaseException, elapsed_seconds: float) -> float:
        """How long to wait after a failed attempt, counted from 1. Random: draw once and use that everywhere."""
        jitter = random.uniform(0.0, min(CAP_SECONDS, FIRST_SECONDS * 2.0 ** min(attempt - 1, 60)))
        if self.wait is None:
            return jitter
        answer = partial(bounded_seconds, default=jitter)
        return self._ask(self.wait, answer, attempt, error, elapsed_seconds, jitter)

    def _ask(
        self,
        strategy: Callable[[State], Any],
        answer: Callable[[Any], T],
        attempt: int,
        error: BaseException,
        elapsed: float,
        default: T,
    ) -> T:
        state = RetryCallState(retry_object=None, fn=None, args=(), kwargs={})  # type: ignore[arg-type]
        state.attempt_number = attempt
        state.outcome = Future(attempt)
        state.outcome.set_exception(error)
        state.outcome_timestamp = state.start_time + elapsed
        try:
            return answer(strategy(state))
        except Exception:
            log.exception("the retry strategy %r failed; its default is used", strategy)
            return default


DEFAULT_RETRY = Retry()


def bounded_seconds(seconds: Any, default: float) -> float:
    """A wait that can be slept: from 0 to 30 days, whatever a strategy or handler answered."""
    try:
        value = float(seconds)
    except OverflowError:
        return LONGEST_WAIT_SECONDS if seconds > 0 else 0.0
    except (TypeError, ValueError):
        return default
    return default if math.isnan(value) else min(max(value, 0.0), LONGEST_WAIT_SECONDS)

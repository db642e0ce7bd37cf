"""When a failed record is tried again: bounded whatever a strategy answers, and saturating however often it failed."""

import logging
import math
import random
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import tenacity
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import Retry, SettingsError
from streams.retry import DEFAULT_RETRY, bounded_seconds

STEADY = settings(derandomize=True, deadline=None, max_examples=200)
ERROR = ValueError("mine")
DAY = 86_400.0
LONGEST = 30 * DAY

Strategy = Callable[[tenacity.RetryCallState], Any]


def draws(attempt: int, count: int = 2_000) -> list[float]:
    random.seed(attempt)
    return [DEFAULT_RETRY.draw_seconds(attempt, ERROR, 0.0) for _ in range(count)]


@pytest.mark.parametrize("attempt", [1, 2, 3, 5, 10, 13])
def test_the_wait_is_full_jitter_that_doubles(attempt: int) -> None:
    cap = 0.5 * 2 ** (attempt - 1)
    waits = draws(attempt)
    assert min(waits) >= 0
    assert max(waits) <= cap
    assert min(waits) < 0.01 * cap
    assert max(waits) > 0.99 * cap
    assert sum(waits) / len(waits) == pytest.approx(cap / 2, rel=0.05)


@pytest.mark.parametrize("attempt", [14, 15, 61, 62, 1_025, 10**9, 10**400])
def test_the_wait_is_an_hour_at_most_however_often_it_failed(attempt: int) -> None:
    waits = draws(attempt)
    assert 3_500 < max(waits) <= 3_600
    assert sum(waits) / len(waits) == pytest.approx(1_800, rel=0.05)


def test_twelve_attempts_take_17_minutes_at_most() -> None:
    assert DEFAULT_RETRY.attempts == 12
    caps = [max(draws(attempt)) for attempt in range(1, 12)]
    assert sum(caps) <= 17.1 * 60


@pytest.mark.parametrize(("attempts", "attempt"), [(1, 1), (12, 12), (12, 13), (3, 10**400)])
def test_the_last_attempt_exhausts(attempts: int, attempt: int) -> None:
    assert Retry(attempts=attempts).exhausted(attempt, ERROR, 0.0)


@pytest.mark.parametrize(("attempts", "attempt"), [(2, 1), (12, 11), (10**9, 10**9 - 1)])
def test_an_attempt_before_the_last_does_not_exhaust(attempts: int, attempt: int) -> None:
    assert not Retry(attempts=attempts).exhausted(attempt, ERROR, 1e9)


@pytest.mark.parametrize(
    ("wait", "waits"),
    [
        (tenacity.wait_none(), [0, 0, 0]),
        (tenacity.wait_fixed(3), [3, 3, 3]),
        (tenacity.wait_fixed(timedelta(minutes=1)), [60, 60, 60]),
        (tenacity.wait_incrementing(1, 2), [1, 3, 5]),
        (tenacity.wait_exponential(max=3), [1, 2, 3]),
        (tenacity.wait_chain(tenacity.wait_fixed(1), tenacity.wait_fixed(7)), [1, 7, 7]),
        (tenacity.wait_fixed(1) + tenacity.wait_fixed(2), [3, 3, 3]),
        (tenacity.wait_exception(lambda error: len(str(error))), [4, 4, 4]),
        (lambda state: state.attempt_number * state.seconds_since_start, [10, 20, 30]),
    ],
)
def test_tenacitys_wait_strategies_are_asked(wait: Strategy, waits: list[float]) -> None:
    retry = Retry(wait=wait)
    assert [retry.draw_seconds(attempt, ERROR, 10.0) for attempt in (1, 2, 3)] == pytest.approx(waits)


@pytest.mark.parametrize(
    ("wait", "low", "high"),
    [
        (tenacity.wait_random(2, 3), 2, 3),
        (tenacity.wait_random_exponential(max=5), 0, 5),
        (tenacity.wait_exponential_jitter(initial=1, max=9, jitter=1), 1, 9),
    ],
)
def test_tenacitys_random_strategies_keep_their_bounds(wait: Strategy, low: float, high: float) -> None:
    waits = [Retry(wait=wait).draw_seconds(attempt, ERROR, 0.0) for attempt in (*range(1, 50), 10**6)]
    assert low <= min(waits) <= max(waits) <= high
    assert len(set(waits)) > 3


@pytest.mark.parametrize(
    ("stop", "exhausted"),
    [
        (tenacity.stop_never, [False, False, False]),
        (tenacity.stop_after_attempt(2), [False, True, True]),
        (tenacity.stop_after_delay(15), [False, True, True]),
        (tenacity.stop_before_delay(25), [False, False, True]),
        (tenacity.stop_after_attempt(2) | tenacity.stop_after_delay(5), [True, True, True]),
        (tenacity.stop_after_attempt(2) & tenacity.stop_after_delay(25), [False, False, True]),
        (lambda state: isinstance(state.outcome.exception(), ValueError), [True, True, True]),
        (lambda state: "yes" * (state.attempt_number > 2), [False, False, True]),
    ],
)
def test_tenacitys_stop_strategies_are_asked(stop: Strategy, exhausted: list[bool]) -> None:
    retry = Retry(stop=stop)
    assert [retry.exhausted(attempt, ERROR, 10.0 * attempt) for attempt in (1, 2, 3)] == exhausted


def test_a_strategy_cannot_go_beyond_the_attempts() -> None:
    assert Retry(attempts=3, stop=tenacity.stop_never).exhausted(3, ERROR, 0.0)


@pytest.mark.parametrize("elapsed", [0.0, 1e12, math.inf])
def test_a_strategy_is_asked_however_long_it_took(elapsed: float) -> None:
    assert Retry(stop=tenacity.stop_after_delay(60)).exhausted(1, ERROR, elapsed) is (elapsed > 60)


class Evil:
    """Raises, whatever it is asked to be."""

    def __float__(self) -> float:
        raise ZeroDivisionError

    def __bool__(self) -> bool:
        raise ZeroDivisionError


def raises(state: tenacity.RetryCallState) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize("answer", [None, math.nan, "soon", [], timedelta(1), Decimal("nan"), Evil(), object()])
def test_an_answer_that_is_no_number_is_replaced_by_the_default(answer: object) -> None:
    waits = [Retry(wait=lambda state: answer).draw_seconds(2, ERROR, 0.0) for _ in range(50)]  # type: ignore[arg-type, return-value]
    assert 0 <= min(waits) < max(waits) <= 1


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (-1, 0.0),
        (-math.inf, 0.0),
        (-(10**400), 0.0),
        (math.inf, LONGEST),
        (1e300, LONGEST),
        (10**400, LONGEST),
        (LONGEST + 1, LONGEST),
        (LONGEST, LONGEST),
        (0, 0.0),
        (Decimal("1.5"), 1.5),
        (True, 1.0),
    ],
)
def test_an_absurd_answer_is_clamped(answer: Any, seconds: float) -> None:
    assert Retry(wait=lambda state: answer).draw_seconds(1, ERROR, 0.0) == seconds


@STEADY
@given(st.floats() | st.integers() | st.none() | st.text() | st.decimals(), st.floats(0, 10))
def test_a_wait_can_be_slept_whatever_was_answered(answer: object, default: float) -> None:
    seconds = bounded_seconds(answer, default)
    assert isinstance(seconds, float)
    assert 0 <= seconds <= LONGEST


def test_a_strategy_that_raises_is_logged_and_the_default_is_used(caplog: pytest.LogCaptureFixture) -> None:
    retry = Retry(wait=raises, stop=raises, attempts=3)
    with caplog.at_level(logging.ERROR, "streams"):
        assert not retry.exhausted(1, ERROR, 0.0)
        assert 0 <= retry.draw_seconds(1, ERROR, 0.0) <= 0.5
    assert [record.message.split(" at 0x")[0] for record in caplog.records] == [
        "the retry strategy <function raises",
        "the retry strategy <function raises",
    ]
    assert retry.exhausted(3, ERROR, 0.0)


@pytest.mark.parametrize("answer", [Evil()])
def test_a_stop_that_is_neither_true_nor_false_does_not_stop(answer: Any) -> None:
    assert not Retry(stop=lambda state: answer).exhausted(1, ERROR, 0.0)


@pytest.mark.parametrize("attempts", [0, -1, True, 1.5, "3", None, math.inf])
def test_a_number_of_attempts_that_cannot_be_is_refused(attempts: Any) -> None:
    with pytest.raises(SettingsError, match=rf"Retry\(attempts={attempts!r}\): at least 1, the first attempt counts"):
        Retry(attempts=attempts)


async def later(state: tenacity.RetryCallState) -> float:
    return 1.0


@pytest.mark.parametrize("name", ["wait", "stop"])
@pytest.mark.parametrize("strategy", [5, "exponential", later])
def test_a_strategy_that_cannot_be_asked_is_refused(name: str, strategy: Any) -> None:
    with pytest.raises(SettingsError, match=rf"Retry\({name}=…\): a tenacity strategy or a plain function"):
        Retry(**{name: strategy})


def test_a_policy_is_a_value_that_does_not_change() -> None:
    assert Retry(attempts=3) == Retry(attempts=3) != Retry(attempts=4)
    with pytest.raises(AttributeError):
        Retry().attempts = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        Retry(3)  # type: ignore[call-arg]

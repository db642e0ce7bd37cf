"""The stores agree, whatever is done to all of them."""

import os
from collections.abc import Iterator
from functools import partial
from typing import cast

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.agreement.contender import MAKERS, on_postgres
from tests.agreement.machine import Agreement

EXAMPLES = 20
LONG_EXAMPLES = int(os.environ.get("STREAMS_AGREEMENT_EXAMPLES", "3000"))

ANY_LENGTH = settings(
    deadline=None, database=None, stateful_step_count=40, suppress_health_check=list(HealthCheck), print_blob=True
)


@pytest.fixture
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


def run(portal: BlockingPortal, database: str, bounds: settings) -> None:
    makers = {**MAKERS, "postgres": on_postgres(database)}
    make = cast(type[Agreement], partial(Agreement, makers, portal))  # Whatever makes a machine will do.
    run_state_machine_as_test(make, settings=bounds)


@pytest.mark.timeout(600)  # Seconds while they agree; when not, a short example is looked for.
def test_all_stores_answer_the_same_to_whatever_is_done_to_them(portal: BlockingPortal, database: str) -> None:
    run(portal, database, settings(ANY_LENGTH, derandomize=True, max_examples=EXAMPLES))


@pytest.mark.long
def test_the_same_for_many_random_sequences(portal: BlockingPortal, database: str) -> None:
    run(portal, database, settings(ANY_LENGTH, max_examples=LONG_EXAMPLES))

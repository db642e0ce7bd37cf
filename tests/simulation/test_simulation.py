"""Many seeds: in each, several workers live through what a fleet lives through, and no guarantee is broken.

A failing seed is replayed with `python -m tests.simulation SEED`, which logs what the workers said.
"""

import logging
import os
from collections.abc import Iterator

import pytest

from tests.simulation.bugs import BUGS, Bug, seed_that_finds
from tests.simulation.world import simulate

SEEDS = 200
LONG_SEEDS = int(os.environ.get("STREAMS_SIMULATION_SEEDS", "10000"))
BLOCK = 20


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    log = logging.getLogger("streams")
    level = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(level)


def run(seeds: range) -> None:
    for seed in seeds:
        try:
            assert simulate(seed).starts > 0
        except BaseException as error:
            raise AssertionError(f"seed {seed} fails; replay it with: python -m tests.simulation {seed}") from error


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_no_guarantee_is_broken(first: int) -> None:
    run(range(first, first + BLOCK))


@pytest.mark.long
@pytest.mark.parametrize("first", range(SEEDS, LONG_SEEDS, BLOCK))
def test_no_guarantee_is_broken_on_many_seeds(first: int) -> None:
    run(range(first, first + BLOCK))


def test_a_seed_replays_the_same_run() -> None:
    assert simulate(7).starts == simulate(7).starts


@pytest.mark.long
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_bug_on_purpose_is_found(bug: Bug) -> None:
    assert seed_that_finds(bug) is not None

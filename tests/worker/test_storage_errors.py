"""Every verb of the store fails once, before or after its effect, under workers that share a topic."""

import anyio
import pytest

from streams import Context
from streams.errors import PublishUncertain, StoreUnavailable
from tests.worker.bench import Bench, until
from tests.worker.faults import EVER
from tests.worker.ledger import Ledger
from tests.worker.setting import MEMORY, SQLITE, VIRTUAL, in_settings, in_virtual_time

KEYS, ROUNDS = 20, 30


def declare(bench: Bench, ledger: Ledger) -> None:
    orders = bench.app.topic("orders", int, partitions=8)
    doubled = bench.app.topic("doubled", int, partitions=1)

    @orders.subscribe(group="billing")
    async def handle(number: int, ctx: Context) -> None:
        with ledger.record(ctx, number):
            await anyio.sleep(0.002)
            ctx.publish(doubled, ctx.key, number * 2)


VERBS = ["view", "acquire", "fetch", "commit", "release", "generation", "leave", "beat"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("setting", "verb"),
    [(VIRTUAL, verb) for verb in VERBS] + [(SQLITE, verb) for verb in VERBS if verb != "beat"],
    ids=str,
    indirect=["setting"],
)
async def test_a_verb_that_fails_once_loses_repeats_and_reorders_nothing(
    bench: Bench, ledger: Ledger, verb: str, after: bool, caplog: pytest.LogCaptureFixture
) -> None:
    error = PublishUncertain("no answer") if after else StoreUnavailable("away")
    declare(bench, ledger)

    async def publish() -> None:
        for number in range(ROUNDS):
            await bench.app.publish_many("orders", ((f"key-{k}", number) for k in range(KEYS)))

    async with bench.another() as other, anyio.create_task_group() as group:
        declare(other, ledger)
        async with bench.at_work() as job:
            group.start_soon(publish)
            await ledger.reaches(KEYS)
            await bench.shared(8)
            bench.faults.fail(verb, error=error, after=after)
            async with other.at_work():
                await bench.shared(4, 4)  # It releases four,
            await bench.shared(8)  # takes them back,
            await ledger.reaches(KEYS * ROUNDS)
            if verb == "beat":
                await until(lambda: bool(bench.faults.failed))
            assert await job.finish()  # and leaves.
    assert bench.faults.failed == 1
    assert "is started again" not in caplog.text, "an error of the store is no surprise"
    assert not ledger.violations
    assert len(ledger.ended) == KEYS * ROUNDS
    assert (await bench.status("billing")).lag == 0
    assert len(await bench.published("doubled")) == KEYS * ROUNDS


@in_settings(VIRTUAL, SQLITE)
async def test_leases_whose_acquisition_had_no_answer_are_taken_again(bench: Bench, ledger: Ledger) -> None:
    declare(bench, ledger)
    bench.faults.fail("acquire", error=PublishUncertain("no answer"), after=True)
    await bench.app.publish_many("orders", ((f"key-{k}", 0) for k in range(KEYS)))
    async with bench.at_work():
        with anyio.fail_after(3):
            await ledger.reaches(KEYS)
    assert not ledger.violations


@in_virtual_time
async def test_a_worker_survives_an_outage_of_an_hour(
    bench: Bench, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    declare(bench, ledger)

    async def is_settled() -> bool:
        status = await bench.status("billing")
        return sum(one.position for one in status.partitions) == KEYS

    await bench.app.publish_many("orders", ((f"key-{k}", 0) for k in range(KEYS)))
    async with bench.at_work():
        await until(is_settled)
        bench.faults.fail(*VERBS, "register", times=EVER)
        await anyio.sleep(3_600)
        bench.faults.heal()
        await bench.app.publish_many("orders", ((f"key-{k}", 1) for k in range(KEYS)))
        healed = anyio.current_time()
        await ledger.reaches(2 * KEYS)
        assert anyio.current_time() - healed < 5
    assert not ledger.violations
    assert len(ledger.ended) == 2 * KEYS
    said = [entry.getMessage() for entry in caplog.records]
    assert sum("cannot join again" in text for text in said) == 2, "that it began, and that it is over"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@in_settings(MEMORY, SQLITE)
async def test_the_last_beat_before_a_drain_may_fail(bench: Bench, ledger: Ledger, after: bool) -> None:
    declare(bench, ledger)
    await bench.app.publish_many("orders", ((f"key-{k}", 0) for k in range(KEYS)))
    async with bench.at_work() as job:
        await ledger.reaches(KEYS)
        bench.faults.fail("beat", error=PublishUncertain("no answer") if after else None, after=after)
        assert await job.finish()
    assert (await bench.status("billing")).lag == 0
    assert await bench.store.members() == []


@in_virtual_time
async def test_a_partition_that_cannot_be_released_is_released_when_the_store_is_back(
    bench: Bench, ledger: Ledger
) -> None:
    declare(bench, ledger)
    async with bench.another() as other, bench.at_work():
        declare(other, ledger)
        await bench.shared(8)
        bench.faults.fail("release", times=12)
        async with other.at_work():
            await bench.shared(4, 4)
    assert bench.faults.failed == 12

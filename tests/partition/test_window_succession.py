"""Owners follow one another in any order of events, and between them nothing is lost, repeated or out of order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from partition.window import Order
from tests.partition.window_trial import ABSENT, Log, Stored, Trial

KEYS = ["a", "b", "c", "d", "", None, ABSENT]


class Succession(RuleBasedStateMachine):
    """A partition that is written to, and the owners that read it, settle, store and give way."""

    @initialize(
        order=st.sampled_from(["key", "key", "partition", "none"]),
        records=st.integers(1, 20),
        patience=st.integers(1, 12),
    )
    def begin(self, order: Order, records: int, patience: int) -> None:
        self.trial = Trial(Log(), Stored(), order=order, limit_records=records, limit_bytes=100)
        self.patience = patience
        self.commits = 0

    @invariant()
    def a_window_holds_no_more_than_its_limits_and_one_record(self) -> None:
        rows = [row for lane in self.trial.lanes.values() for row in lane]
        assert len(rows) <= self.trial.limit_records
        assert sum(row.size for row in rows) - max((row.size for row in rows), default=0) <= self.trial.limit_bytes

    @precondition(lambda self: len(self.trial.unread()) < 10)
    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=4, max_size=12), size=st.integers(1, 30))
    def publish(self, keys: list[str | None], size: int) -> None:
        for key in keys:
            self.trial.log.append(key, size)

    @precondition(lambda self: self.trial.through < self.trial.log.end and self.trial.window.room()[0])
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        records, octets = self.trial.window.room()
        fitting = 0
        for row in self.trial.unread():
            octets -= row.size
            if fitting and octets < 0:
                break
            fitting += 1
        most = min(records, fitting + (fitting == len(self.trial.unread())))
        self.trial.admit(data.draw(st.integers(1, most)))

    @precondition(lambda self: self.trial.queue)
    @rule(count=st.integers(1, 4))
    def take(self, count: int) -> None:
        for _ in range(count):
            self.trial.take()

    @precondition(lambda self: self.trial.out)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        self.trial.settle(data.draw(st.sampled_from([*self.trial.out])))

    @precondition(lambda self: self.trial.out)
    @rule(data=st.data())
    def settle_one_after_another(self, data: st.DataObject) -> None:
        for name in data.draw(st.permutations([*self.trial.out]))[1:]:
            self.trial.settle(name)

    @precondition(lambda self: self.trial.out)
    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        self.trial.hold(data.draw(st.sampled_from([*self.trial.out])))

    @precondition(lambda self: self.trial.out or self.trial.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        self.trial.give_back(data.draw(st.sampled_from([*self.trial.out, *self.trial.held])))

    @precondition(lambda self: self.trial.barred)
    @rule(data=st.data())
    def unbar(self, data: st.DataObject) -> None:
        self.trial.unbar(data.draw(st.sampled_from(self.trial.barred)))

    @precondition(lambda self: self.trial.window.dirty)
    @rule()
    def advance(self) -> None:
        self.trial.advance()

    @precondition(lambda self: self.trial.progresses)
    @rule()
    def commit(self) -> None:
        self.trial.commit()
        self.commits += 1

    @precondition(lambda self: self.commits >= self.patience)
    @rule()
    def give_way(self) -> None:
        """The owner ends, whatever it was at; where its handlers still run, the next one waits for them."""
        self.trial = self.trial.successor(barred=[name for name in self.trial.out if isinstance(name, str)])
        self.commits = 0

    def teardown(self) -> None:
        if hasattr(self, "trial"):
            self.trial.finish()


TestOwnersInSuccession = Succession.TestCase
TestOwnersInSuccession.settings = settings(
    derandomize=True,
    deadline=None,
    max_examples=80,
    stateful_step_count=120,
    report_multiple_bugs=False,
)

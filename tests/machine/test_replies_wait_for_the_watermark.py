"""Whatever happens in whatever order: no reply leaves before what it stands on is committed."""

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.machine.decision import Decision
from penstock.machine.held_replies import NotDone
from penstock.machine.host import AppendFailed, Host
from penstock.model.offset import Offset


class Sum:
    """A state machine that adds up its records."""

    def __init__(self) -> None:
        self.total = 0
        self.volatile = 0

    def apply(self, record: int) -> None:
        self.total += record

    def apply_volatile(self, change: object) -> None:
        assert isinstance(change, int)
        self.volatile += change


class ListJournal:
    def __init__(self) -> None:
        self.records: list[int] = []
        self.broken = False

    @property
    def end_offset(self) -> Offset:
        return Offset(len(self.records))

    def append(self, records: Sequence[int]) -> None:
        if self.broken:
            raise AppendFailed("no space left")
        self.records.extend(records)


class HostUnderAnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.journal = ListJournal()
        self.sum = Sum()
        self.effects: list[object] = []
        self.host: Host[int, int] = Host(
            journal=self.journal,
            machine=self.sum,
            watermark=Offset(0),
            carry_out=self.effects.append,
        )
        self.host.opened()
        self.now_ms = 0
        self.answers: dict[int, list[int | NotDone]] = {}
        self.stands_on: dict[int, int] = {}  # the journal's end when a request was decided
        self.effects_owed: list[int] = []
        self.lost = False

    @rule(records=st.lists(st.integers(1, 9), max_size=3), wait_ms=st.integers(1, 20))
    def submit(self, records: list[int], wait_ms: int) -> None:
        number = len(self.answers)
        self.answers[number] = []

        def decide() -> Decision[int, int]:
            return Decision(
                records=tuple(records),
                reply=self.sum.total + sum(records),
                effects=(number,),
                volatile=(1,),
            )

        before = self.journal.end_offset
        self.host.submit(
            decide, deadline_ms=self.now_ms + wait_ms, answer=self.answers[number].append
        )
        if self.lost:
            assert self.answers[number] == [NotDone.LEADERSHIP_LOST]
        elif self.journal.broken and records:
            assert self.answers[number] == [NotDone.APPEND_FAILED]
            assert self.journal.end_offset == before
        else:
            self.stands_on[number] = self.journal.end_offset
            self.effects_owed.append(number)

    @rule(share=st.floats(0, 1))
    def commit(self, share: float) -> None:
        if self.lost:
            return
        ahead = self.journal.end_offset - self.host.watermark
        self.host.advance(Offset(self.host.watermark + round(ahead * share)))

    @rule(ms=st.integers(0, 15))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.host.expire(self.now_ms)
        deadline_ms = self.host.next_deadline_ms()
        assert deadline_ms is None or deadline_ms > self.now_ms

    @rule()
    def break_or_mend_the_journal(self) -> None:
        self.journal.broken = not self.journal.broken

    @precondition(lambda self: not self.lost and len(self.answers) > 5)
    @rule()
    def lose_leadership(self) -> None:
        self.host.lose_leadership()
        self.lost = True

    @invariant()
    def every_request_is_answered_at_most_once(self) -> None:
        assert all(len(answers) <= 1 for answers in self.answers.values())

    @invariant()
    def a_reply_stands_on_committed_records(self) -> None:
        for number, answers in self.answers.items():
            if answers and not isinstance(answers[0], NotDone):
                assert self.stands_on[number] <= self.host.watermark

    @invariant()
    def what_is_committed_is_answered(self) -> None:
        for number, end_offset in self.stands_on.items():
            if end_offset <= self.host.watermark:
                assert self.answers[number]

    @invariant()
    def effects_leave_once_and_in_order_even_of_expired_requests(self) -> None:
        committed = [
            number for number in self.effects_owed if self.stands_on[number] <= self.host.watermark
        ]
        assert self.effects == committed

    @invariant()
    def memory_is_what_a_replay_of_the_journal_gives(self) -> None:
        replayed = Sum()
        for record in self.journal.records:
            replayed.apply(record)
        assert replayed.total == self.sum.total
        self.host.check()


HostUnderAnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestHostUnderAnyOrder = HostUnderAnyOrder.TestCase

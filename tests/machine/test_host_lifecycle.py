"""From election to loss of leadership: what a host does, step by step."""

from collections.abc import Sequence

import pytest

from penstock.machine.decision import Decision
from penstock.machine.held_replies import NotDone
from penstock.machine.host import AppendFailed, Host
from penstock.model.limit import DECISION_RECORDS_MAX, HELD_REPLIES_MAX
from penstock.model.offset import Offset


class Words:
    """A state machine that remembers its records."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def apply(self, record: str) -> None:
        self.said.append(record)

    def apply_volatile(self, change: object) -> None:
        self.said.append(f"({change})")


class Journal:
    def __init__(self, records: Sequence[str] = ()) -> None:
        self.records = list(records)
        self.error: AppendFailed | None = None

    @property
    def end_offset(self) -> Offset:
        return Offset(len(self.records))

    def append(self, records: Sequence[str]) -> None:
        if self.error is not None:
            raise self.error
        self.records.extend(records)


class Case:
    def __init__(self, history: Sequence[str] = (), *, watermark: int = 0) -> None:
        self.journal = Journal(history)
        self.words = Words()
        self.answers: list[str | NotDone] = []
        self.effects: list[object] = []
        self.overdue: list[object] = []
        self.host: Host[str, str] = Host(
            journal=self.journal,
            machine=self.words,
            watermark=Offset(watermark),
            carry_out=self.effects.append,
            overdue=self.overdue.append,
        )

    def say(self, *words: str, deadline_ms: int = 100, effects: tuple[str, ...] = ()) -> None:
        decision: Decision[str, str] = Decision(
            records=words, reply="said " + " ".join(words), effects=effects
        )
        self.host.submit(lambda: decision, deadline_ms=deadline_ms, answer=self.answers.append)


def opened() -> Case:
    case = Case()
    case.host.opened()
    return case


def test_a_host_answers_loading_until_its_history_is_committed() -> None:
    case = Case(["a", "b"])
    case.say("too early")
    case.host.replay(["a", "b"], next_offset=Offset(2))
    case.host.opened()
    case.say("still too early")
    case.host.advance(Offset(2))
    case.say("c")
    case.host.advance(Offset(3))
    assert case.answers == [NotDone.LOADING, NotDone.LOADING, "said c"]
    assert case.words.said == ["a", "b", "c"]


def test_a_reply_is_held_until_its_records_are_committed() -> None:
    case = opened()
    case.say("a", "b")
    assert case.answers == []
    case.host.advance(Offset(1))
    assert case.answers == []
    case.host.advance(Offset(2))
    assert case.answers == ["said a b"]


def test_a_read_waits_for_what_it_saw() -> None:
    case = opened()
    case.say("a")
    case.say()
    assert case.answers == []
    case.host.advance(Offset(1))
    assert case.answers == ["said a", "said "]


def test_a_read_of_committed_state_is_answered_at_once() -> None:
    case = opened()
    case.say()
    assert case.answers == ["said "]


def test_a_failed_append_changes_nothing() -> None:
    case = opened()
    case.journal.error = AppendFailed("full")
    case.say("a")
    assert case.answers == [NotDone.APPEND_FAILED]
    assert case.words.said == []
    assert case.host.applied_offset == 0


def test_an_append_that_is_too_large_says_so() -> None:
    case = opened()
    case.journal.error = AppendFailed("9 MiB", NotDone.TOO_LARGE)
    case.say("a")
    assert case.answers == [NotDone.TOO_LARGE]


def test_an_expired_reply_keeps_its_effects() -> None:
    case = opened()
    case.say("a", deadline_ms=50, effects=("notify",))
    case.host.expire(49)
    assert case.answers == []
    case.host.expire(50)
    assert case.answers == [NotDone.TIMED_OUT]
    assert case.host.next_deadline_ms() is None
    case.host.advance(Offset(1))
    assert case.answers == [NotDone.TIMED_OUT]
    assert case.effects == ["notify"]


def test_effects_of_a_decision_that_is_not_committed_in_time_are_overdue_once() -> None:
    case = opened()
    case.say("a", deadline_ms=50, effects=("answer one", "answer another"))
    case.say("b", deadline_ms=60, effects=("answer a third",))
    case.host.expire(49)
    assert case.overdue == []
    case.host.expire(50)
    case.host.expire(51)
    assert case.overdue == ["answer one", "answer another"]
    case.host.advance(Offset(2))
    case.host.expire(60)
    assert case.overdue == ["answer one", "answer another"]


def test_loss_of_leadership_fails_what_is_held_and_drops_its_effects() -> None:
    case = opened()
    case.say("a", effects=("notify",))
    case.host.lose_leadership()
    case.say("b")
    assert case.answers == [NotDone.LEADERSHIP_LOST, NotDone.LEADERSHIP_LOST]
    assert case.effects == []
    assert case.journal.records == ["a"]


def test_a_full_house_refuses() -> None:
    case = opened()
    for _ in range(HELD_REPLIES_MAX):
        case.say("a")
    case.say("one too many")
    assert case.answers == [NotDone.FULL]


def test_a_decision_is_bounded() -> None:
    with pytest.raises(AssertionError):
        Decision(records=("a",) * (DECISION_RECORDS_MAX + 1), reply="")


def test_a_framed_decision_may_be_larger_and_waits_for_the_end_of_its_frame() -> None:
    class Framing(Journal):
        def append(self, records: Sequence[str]) -> None:
            super().append(["(", *records, ")"])

    case = Case()
    case.journal = case.host._journal = Framing()
    case.host.opened()
    words = ("a",) * (DECISION_RECORDS_MAX + 1)
    decision: Decision[str, str] = Decision(records=words, reply="said much", framed=True)
    case.host.submit(lambda: decision, deadline_ms=100, answer=case.answers.append)
    assert case.words.said == list(words)
    case.host.check()
    case.host.advance(Offset(len(words) + 1))
    assert case.answers == [], "the frame has not ended"
    case.host.advance(Offset(len(words) + 2))
    assert case.answers == ["said much"]


def test_who_is_answered_may_ask_again_at_once() -> None:
    case = opened()

    def ask_again(reply: str | NotDone) -> None:
        case.answers.append(reply)
        case.say("b")

    case.host.submit(
        lambda: Decision(records=("a",), reply="said a"), deadline_ms=9, answer=ask_again
    )
    case.host.advance(Offset(1))
    case.host.advance(Offset(2))
    assert case.answers == ["said a", "said b"]

"""A receiver hears of what fires, however long it was away, and of each alert in order."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.alerts.delivery import Delivery, delivery_of, is_owed, read_delivery
from penstock.alerts.machine import State, Transition
from penstock.alerts.report import Report, read_report, report_of
from penstock.alerts.rule import Rule, Scope
from penstock.alerts.rules import DISK_FILLING, OFFLINE_PARTITIONS
from penstock.alerts.undelivered import Undelivered
from penstock.model.identity import NodeId

AGAIN_MS = 100
FIRING, CLEARED = State.FIRING, State.CLEARED


def report(
    subject: str = "a", state: State = FIRING, *, at_ms: int = 1, rule: Rule = DISK_FILLING
) -> Report:
    told = Transition(rule=rule, subject=subject, state=state, value=0.9)
    return report_of(told, node_id=NodeId(3), is_broker=True, now_ms=at_ms)


def undelivered(*reports: Report, reports_max: int = 100) -> Undelivered:
    made = Undelivered(reports_max=reports_max, again_ms=AGAIN_MS)
    for one in reports:
        assert made.add(one) == 0
    return made


def give_up(waiting: Undelivered, *reports: Report, now_ms: int = 0) -> None:
    for one in reports:
        assert waiting.next(now_ms=now_ms) == one
        waiting.given_up(one, now_ms=now_ms)
        waiting.check()


def drained(waiting: Undelivered, *, now_ms: int) -> list[Report]:
    found = []
    while (one := waiting.next(now_ms=now_ms)) is not None:
        waiting.taken(one)
        found.append(one)
    return found


def test_a_report_is_not_compared_with_all_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 200
    reports = [report(str(number)) for number in range(count)]
    waiting = undelivered(*reports, reports_max=2 * count)
    give_up(waiting, *reports)
    looked = 0
    key_of = Report.key.fget  # type: ignore[attr-defined]

    def counting(one: Report) -> bytes:
        nonlocal looked
        looked += 1
        key: bytes = key_of(one)
        return key

    monkeypatch.setattr(Report, "key", property(counting))
    for number in range(count):
        waiting.add(report(str(number), CLEARED, at_ms=2))
    assert looked <= 10 * count
    assert len(drained(waiting, now_ms=AGAIN_MS)) == 2 * count


def test_what_was_given_up_is_sent_again_after_a_while_and_others_meanwhile() -> None:
    a, b = report("a"), report("b")
    waiting = undelivered(a, b)
    give_up(waiting, a)
    assert waiting.next(now_ms=0) == b
    give_up(waiting, b)
    assert waiting.next(now_ms=AGAIN_MS - 1) is None
    assert waiting.next_at_ms() == AGAIN_MS
    assert drained(waiting, now_ms=AGAIN_MS) == [a, b]
    assert waiting.next_at_ms() is None


def test_a_receiver_that_takes_another_report_gets_what_was_given_up_at_once() -> None:
    a, b = report("a"), report("b")
    waiting = undelivered(a, b)
    give_up(waiting, a)
    assert drained(waiting, now_ms=0) == [b, a]


def test_a_report_that_is_always_refused_keeps_no_other_one_back() -> None:
    a, b = report("a"), report("b")
    waiting = undelivered(a, b)
    give_up(waiting, a, b)
    waiting.given_up(a, now_ms=AGAIN_MS)
    assert waiting.next(now_ms=2 * AGAIN_MS) == b


def test_the_end_of_an_alert_waits_until_it_was_told_that_it_fires() -> None:
    a, end, b = report("a"), report("a", CLEARED, at_ms=2), report("b")
    waiting = undelivered(a, end, b)
    give_up(waiting, a)
    assert drained(waiting, now_ms=0) == [b, a, end]
    waiting = undelivered(a)
    give_up(waiting, a)
    waiting.add(end)
    assert waiting.next(now_ms=0) is None
    assert drained(waiting, now_ms=AGAIN_MS) == [a, end]


def test_an_alert_that_fires_anew_is_sent_once_when_the_receiver_is_back() -> None:
    first, end, anew = report(at_ms=1), report(state=CLEARED, at_ms=2), report(at_ms=3)
    waiting = undelivered(first)
    give_up(waiting, first)
    waiting.add(end)
    waiting.add(anew)
    waiting.check()
    assert drained(waiting, now_ms=AGAIN_MS) == [anew]


def test_what_another_node_tells_is_not_sent() -> None:
    late, new = report("", rule=OFFLINE_PARTITIONS), report("", CLEARED, rule=OFFLINE_PARTITIONS)
    own = report()
    waiting = undelivered(late, own)
    give_up(waiting, late)
    waiting.add(new)
    waiting.keep({Scope.NODE})
    assert late not in waiting
    waiting.given_up(late, now_ms=0)
    assert drained(waiting, now_ms=AGAIN_MS) == [own]


def test_when_there_are_too_many_the_oldest_are_dropped() -> None:
    waiting = undelivered(*(report(subject) for subject in "abc"), reports_max=3)
    assert waiting.add(report("d")) == 1
    assert [one.subject for one in drained(waiting, now_ms=0)] == ["b", "c", "d"]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("tell"), st.sampled_from("abc")),
            st.tuples(st.sampled_from(("take", "give up", "wait")), st.none()),
        ),
        max_size=60,
    )
)
def test_in_the_end_a_receiver_knows_of_each_alert_whether_it_fires(
    steps: list[tuple[str, str | None]],
) -> None:
    waiting = undelivered()
    now_ms = 0
    last: dict[str, State] = {}
    known: dict[str, Report] = {}

    def take(one: Report) -> None:
        assert one.subject not in known or known[one.subject].at_ms < one.at_ms
        known[one.subject] = one
        waiting.taken(one)

    for step, subject in steps:
        now_ms += 1
        one = waiting.next(now_ms=now_ms)
        if subject is not None:
            last[subject] = CLEARED if last.get(subject) is FIRING else FIRING
            waiting.add(report(subject, last[subject], at_ms=now_ms))
        elif step == "wait":
            now_ms += AGAIN_MS
        elif one is not None and step == "take":
            take(one)
        elif one is not None:
            waiting.given_up(one, now_ms=now_ms)
        waiting.check()
    while (one := waiting.next(now_ms=now_ms + AGAIN_MS)) is not None:
        take(one)
    assert {subject: one.state for subject, one in known.items()} == last


@pytest.mark.parametrize(
    ("state", "taken", "owed"),
    [
        (FIRING, None, True),
        (FIRING, (FIRING, 5), False),
        (FIRING, (FIRING, 4), True),  # it fired before, and has cleared since
        (FIRING, (CLEARED, 4), True),
        (CLEARED, None, False),  # the receiver never heard of it
        (CLEARED, (FIRING, 4), True),
        (CLEARED, (CLEARED, 5), False),
    ],
)
def test_what_the_receiver_does_not_know_is_owed(
    state: State, taken: tuple[State, int] | None, owed: bool
) -> None:
    last = report(state=state, at_ms=5)
    delivered = None
    if taken is not None:
        delivered = delivery_of(replace(last, state=taken[0], at_ms=taken[1]))
    assert is_owed(last, delivered) == owed


@given(st.text(), st.sampled_from(State))
def test_a_delivery_is_read_as_it_was_written_and_is_no_report(subject: str, state: State) -> None:
    written = delivery_of(report(subject, state))
    assert read_delivery(written.key, written.body) == written
    assert read_report(written.body) is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff",
        b"[]",
        b"1",
        b"[" * 100_000,
        b'{"delivered": 1}',
        b'{"delivered": {"state": "firing", "at_ms": true}}',
        b'{"delivered": {"state": "firing", "at_ms": -1}}',
        b'{"delivered": {"state": "hot", "at_ms": 1}}',
        b'{"delivered": {"state": [], "at_ms": 1}}',
    ],
)
def test_what_is_no_delivery_is_none(value: bytes | None) -> None:
    assert read_delivery(b"webhook/k", value) is None
    good = Delivery(report_key=b"k", state=FIRING, at_ms=1)
    assert read_delivery(good.key, good.body) == good
    assert read_delivery(b"k", good.body) is None

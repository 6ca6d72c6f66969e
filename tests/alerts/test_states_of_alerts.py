"""Alerts begin to fire and clear when they have held for their time, and never flap."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.alerts.machine import AlertKey, Alerts, Snapshot, State
from penstock.alerts.rule import WHOLE, Rule, Scope, Severity, Side

NODE = frozenset({Scope.NODE})
BOTH = frozenset(Scope)


def rule(name: str = "Hot", *, scope: Scope = Scope.NODE, side: Side = Side.ABOVE) -> Rule:
    return Rule(
        name=name,
        severity=Severity.WARNING,
        scope=scope,
        subject="",
        means="It is hot.",
        action="Cool it.",
        threshold=10,
        side=side,
        fires_after_ms=60,
        clears_after_ms=30,
    )


class Watched:
    """Snapshots of one rule, and what is told of it."""

    def __init__(self, *rules: Rule, tracked_max: int = 100) -> None:
        self.alerts = Alerts(rules or (rule(),), tracked_max=tracked_max)

    def at(
        self,
        now_ms: int,
        value: float | None = None,
        *,
        scopes: frozenset[Scope] = NODE,
        subjects: dict[str, float | None] | None = None,
        name: str = "Hot",
    ) -> list[tuple[str, State]]:
        figures = {WHOLE: value} if subjects is None else subjects
        told = self.alerts.evaluate(Snapshot(now_ms=now_ms, scopes=scopes, figures={name: figures}))
        self.alerts.check()
        return [(one.subject, one.state) for one in told]


FIRING = [(WHOLE, State.FIRING)]
CLEARED = [(WHOLE, State.CLEARED)]


def test_an_alert_fires_once_its_figure_has_been_beyond_for_its_time() -> None:
    watched = Watched()
    assert watched.at(0, 11) == []
    assert watched.at(59, 11) == []
    assert watched.at(60, 11) == FIRING
    assert watched.at(61, 12) == []
    assert watched.at(1_000, 99) == []


def test_the_threshold_itself_is_no_reason_to_fire() -> None:
    watched = Watched()
    watched.at(0, 10)
    assert watched.at(100, 10) == []
    assert not watched.alerts.tracked


def test_a_rule_below_its_threshold_fires_when_too_little_is_left() -> None:
    watched = Watched(rule(side=Side.BELOW))
    assert watched.at(0, 9) == []
    assert watched.at(60, 9) == FIRING
    assert watched.at(70, 11) == []
    assert watched.at(100, 11) == CLEARED


def test_a_figure_that_falls_back_in_time_never_fires() -> None:
    watched = Watched()
    for start in range(0, 1_000, 100):
        assert watched.at(start, 11) == []
        assert watched.at(start + 50, 11) == []
        assert watched.at(start + 59, 9) == []


def test_a_firing_alert_clears_when_it_has_been_within_for_its_time() -> None:
    watched = Watched()
    watched.at(0, 11)
    watched.at(60, 11)
    assert watched.at(70, 9) == []
    assert watched.at(99, 9) == []
    assert watched.at(100, 9) == CLEARED
    assert watched.at(101, 9) == []


def test_a_firing_alert_does_not_flap_around_its_threshold() -> None:
    watched = Watched()
    watched.at(0, 11)
    assert watched.at(60, 11) == FIRING
    for start in range(100, 2_000, 40):
        assert watched.at(start, 9) == []
        assert watched.at(start + 29, 11) == []


def test_a_subject_that_is_gone_clears() -> None:
    watched = Watched()
    watched.at(0, subjects={"a": 11, "b": 11})
    assert watched.at(60, subjects={"a": 11, "b": 11}) == [
        ("a", State.FIRING),
        ("b", State.FIRING),
    ]
    assert watched.at(70, subjects={"b": 11}) == []
    assert watched.at(100, subjects={"b": 11}) == [("a", State.CLEARED)]


def test_a_figure_that_is_not_known_now_changes_nothing() -> None:
    watched = Watched()
    watched.at(0, 11)
    assert watched.at(60, 11) == FIRING
    assert watched.at(70, None) == []
    assert watched.at(500, None) == []
    assert len(watched.alerts.firing()) == 1


def test_a_subject_that_may_have_been_left_out_stays_as_it_is() -> None:
    watched = Watched(rule("Hot"), rule("Whole"))
    for now_ms in (0, 60):
        figures = {"Hot": {"a": 11.0, "b": 11.0}, "Whole": {"a": 11.0}}
        watched.alerts.evaluate(Snapshot(now_ms=now_ms, scopes=NODE, figures=figures))
    told = [
        (one.rule.name, one.subject, one.state)
        for now_ms in (70, 100)
        for one in watched.alerts.evaluate(
            Snapshot(now_ms=now_ms, scopes=NODE, figures={}, left_out={"Hot": "a".__eq__})
        )
    ]
    assert told == [("Hot", "b", State.CLEARED), ("Whole", "a", State.CLEARED)]
    assert watched.at(200, subjects={}) == []
    assert watched.at(230, subjects={}) == [("a", State.CLEARED)]


def test_a_node_that_is_not_the_controller_any_more_forgets_without_a_word() -> None:
    watched = Watched(rule(scope=Scope.CLUSTER))
    watched.at(0, 11, scopes=BOTH)
    assert watched.at(60, 11, scopes=BOTH) == FIRING
    assert watched.at(70, 11, scopes=NODE) == []
    assert not watched.alerts.tracked


def test_what_another_told_as_firing_is_adopted_and_told_when_it_clears() -> None:
    watched = Watched()
    keys = [AlertKey("Hot", "gone"), AlertKey("Hot", "still"), AlertKey("Unheard", "x")]
    watched.alerts.adopt(keys, now_ms=0)
    assert watched.at(0, subjects={"still": 11}) == []
    assert watched.at(100, subjects={"still": 11}) == [("gone", State.CLEARED)]
    assert watched.at(200, subjects={"still": 9}) == []
    assert watched.at(230, subjects={"still": 9}) == [("still", State.CLEARED)]


def test_subjects_beyond_the_bound_are_counted_and_left_out() -> None:
    watched = Watched(tracked_max=2)
    watched.at(0, subjects={"a": 11, "b": 11, "c": 11})
    assert watched.alerts.left_out == 1
    assert len(watched.alerts.tracked) == 2


def test_too_many_subjects_of_one_rule_keep_no_other_rule_from_firing() -> None:
    many, lost = rule("Many"), rule("Lost")
    watched = Watched(many, lost, tracked_max=2)
    watched.alerts.adopt([AlertKey("Many", "a"), AlertKey("Many", "b")], now_ms=0)
    figures = {"Many": {"a": 11.0, "b": 11.0, "c": 11.0}, "Lost": {WHOLE: 11.0}}
    told = [
        one.rule.name
        for now_ms in (0, 60)
        for one in watched.alerts.evaluate(Snapshot(now_ms=now_ms, scopes=NODE, figures=figures))
    ]
    watched.alerts.check()
    assert told == ["Lost"]
    assert watched.alerts.left_out == 1


def test_a_rule_whose_subjects_are_too_many_leaves_room_to_adopt_others() -> None:
    watched = Watched(rule("Many"), rule("Lost"), tracked_max=1)
    watched.alerts.adopt([AlertKey("Many", "a"), AlertKey("Lost", WHOLE)], now_ms=0)
    watched.alerts.check()
    assert [one.rule.name for one in watched.alerts.firing()] == ["Many", "Lost"]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 40),
            st.dictionaries(st.sampled_from("abcd"), st.none() | st.floats(0, 20, allow_nan=False)),
        ),
        max_size=60,
    )
)
def test_firing_and_cleared_are_told_in_turns_and_not_too_soon(
    steps: list[tuple[int, dict[str, float | None]]],
) -> None:
    watched = Watched(tracked_max=3)
    now_ms = 0
    last: dict[str, tuple[State, int]] = {}
    for after_ms, figures in steps:
        now_ms += after_ms
        for subject, state in watched.at(now_ms, subjects=figures):
            before = last.get(subject)
            if state is State.FIRING:
                value = figures[subject]
                assert value is not None
                assert value > 10
                assert before is None or before[0] is State.CLEARED
                assert before is None or now_ms - before[1] >= 60
            else:
                assert before is not None
                assert before[0] is State.FIRING
                assert now_ms - before[1] >= 30
            last[subject] = (state, now_ms)
        firing = {one.subject for one in watched.alerts.firing()}
        assert firing == {subject for subject, (state, _) in last.items() if state is State.FIRING}

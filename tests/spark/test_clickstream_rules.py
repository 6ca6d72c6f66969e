"""Fraud is told of whenever there is some, once, and never otherwise."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.pipelines.clickstream.rules import (
    CARD_BURST,
    DISORDER_MS,
    FAILED_LOGINS,
    MOMENTS_MAX,
    NOTHING,
    RULES,
    TWO_COUNTRIES,
    Moment,
    Rule,
    forget_at_ms,
    notice,
)

AT_MS = 1_767_225_600_000


@st.composite
def scattered(draw: st.DrawFn, rule: Rule) -> list[Moment]:
    """Moments of some spans, few enough to be remembered all, in any order."""
    reach = min(3 * rule.span_ms, DISORDER_MS)
    times = draw(st.lists(st.integers(0, reach), min_size=1, max_size=14))
    details = draw(st.lists(st.sampled_from("ABC"), min_size=len(times), max_size=len(times)))
    moments = [
        Moment(AT_MS + at_ms, f"e{number}", detail if rule is TWO_COUNTRIES else f"e{number}")
        for number, (at_ms, detail) in enumerate(zip(times, details, strict=True))
    ]
    return draw(st.permutations(moments))


def is_fraud(moments: list[Moment], rule: Rule) -> bool:
    """By the definition: some span holds enough."""
    return any(
        len({one.detail for one in moments if 0 <= one.at_ms - first.at_ms <= rule.span_ms})
        >= rule.least
        for first in moments
    )


@given(st.sampled_from(list(RULES.values())).flatmap(lambda r: st.tuples(st.just(r), scattered(r))))
def test_there_is_an_alert_exactly_when_a_span_holds_enough(
    case: tuple[Rule, list[Moment]],
) -> None:
    rule, moments = case
    _, alerts = notice(NOTHING, moments, rule)
    assert bool(alerts) == is_fraud(moments, rule)


@given(st.sampled_from(list(RULES.values())).flatmap(lambda r: st.tuples(st.just(r), scattered(r))))
def test_the_evidence_is_fraud_by_itself(case: tuple[Rule, list[Moment]]) -> None:
    rule, moments = case
    by_id = {moment.event_id: moment for moment in moments}
    for alert in notice(NOTHING, moments, rule)[1]:
        evidence = [by_id[event_id] for event_id in alert.event_ids]
        assert is_fraud(evidence, rule)
        assert (alert.first_at_ms, alert.last_at_ms) == (evidence[0].at_ms, evidence[-1].at_ms)


@given(st.permutations(range(9)))
def test_one_attack_is_one_alert_in_whatever_order_it_comes(order: list[int]) -> None:
    moments = [Moment(AT_MS + 5_000 * number, f"e{number}", f"e{number}") for number in order]
    _, alerts = notice(NOTHING, moments, FAILED_LOGINS)
    assert len(alerts) == 1


@given(scattered(CARD_BURST))
def test_a_moment_that_comes_again_changes_nothing(moments: list[Moment]) -> None:
    memory, _ = notice(NOTHING, moments, CARD_BURST)
    assert notice(memory, moments, CARD_BURST) == (memory, [])


def test_an_attack_that_goes_on_is_told_of_once() -> None:
    moments = [Moment(AT_MS + 2_000 * number, f"e{number}", f"e{number}") for number in range(500)]
    memory, alerts = notice(NOTHING, moments, FAILED_LOGINS)
    assert len(alerts) == 1
    assert len(memory.moments) == MOMENTS_MAX


def test_the_next_attack_is_told_of_again() -> None:
    starts = (AT_MS, AT_MS + 3_600_000)
    moments = [
        Moment(start + 1_000 * number, f"{start}-{number}", f"{start}-{number}")
        for start, number in itertools.product(starts, range(6))
    ]
    _, alerts = notice(NOTHING, moments, FAILED_LOGINS)
    assert [alert.first_at_ms for alert in alerts] == list(starts)


def test_many_purchases_in_one_country_are_no_fraud() -> None:
    moments = [Moment(AT_MS + 1_000 * number, f"e{number}", "DE") for number in range(50)]
    assert notice(NOTHING, moments, TWO_COUNTRIES)[1] == []


def test_what_is_remembered_lasts_as_long_as_late_events_may_come() -> None:
    memory, _ = notice(NOTHING, [Moment(AT_MS, "e0", "DE")], TWO_COUNTRIES)
    assert forget_at_ms(memory, TWO_COUNTRIES) == AT_MS + TWO_COUNTRIES.span_ms + DISORDER_MS

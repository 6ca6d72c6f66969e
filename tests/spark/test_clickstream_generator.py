"""The generator tells the truth about what it makes, or comparing with it would prove nothing."""

import json
from collections import defaultdict
from itertools import islice, pairwise
from typing import Any

from penstock.spark.pipelines.clickstream import rules
from penstock.spark.pipelines.clickstream.generate import (
    LATE_MS_MAX,
    SEND_DELAY_MS,
    Act,
    Fraud,
    acts,
    events,
)
from penstock.spark.pipelines.clickstream.rules import Moment
from penstock.spark.pipelines.generated import WRONG_TIMES_MS


def some(count: int = 4_000) -> list[Act]:
    return list(islice(acts(7, users=60), count))


def test_the_same_seed_makes_the_same_events() -> None:
    assert list(islice(events(3), 500)) == list(islice(events(3), 500))
    assert list(islice(events(3), 500)) != list(islice(events(4), 500))


def test_events_are_keyed_by_user_and_late_by_no_more_than_said() -> None:
    latest_ms = 0
    for act in some():
        assert latest_ms - act.event.timestamp_ms <= SEND_DELAY_MS
        latest_ms = max(latest_ms, act.event.timestamp_ms)
        if not act.damaged:
            assert act.event.key == fields(act)["user_id"].encode()
        if not (act.damaged or act.late):
            assert act.event.timestamp_ms == fields(act)["at_ms"]


def test_some_are_too_late_for_sessions_and_alerts_and_none_of_a_fraud() -> None:
    made = some(20_000)
    late = [act for act in made if act.late]
    assert len(made) / 300 < len(late) < len(made) / 150
    assert not any(act.fraud or act.damaged for act in late)
    for act in late:
        behind_ms = act.event.timestamp_ms - fields(act)["at_ms"]
        assert rules.LATENESS.late_ms_max < behind_ms <= LATE_MS_MAX


def test_some_are_damaged_and_none_of_a_fraud() -> None:
    made = some()
    damaged = [act for act in made if act.damaged]
    assert 5 <= len(damaged) <= len(made) / 50
    assert not any(act.fraud for act in damaged)


def test_some_damaged_events_are_whole_and_of_a_wrong_time() -> None:
    damaged = [act.event.value or b"" for act in some(20_000) if act.damaged]
    times = {json.loads(value)["at_ms"] for value in damaged if value.endswith(b"}")}
    assert set(WRONG_TIMES_MS) <= times


def test_every_fraud_breaks_its_rule_and_honest_people_break_none() -> None:
    frauds: dict[Fraud, list[Moment]] = defaultdict(list)
    honest: dict[tuple[str, str], list[Moment]] = defaultdict(list)
    for act in some():
        if act.damaged:
            continue
        for rule, subject, moment in signals(act):
            if act.fraud is None:
                honest[rule, subject].append(moment)
            elif (act.fraud.rule, act.fraud.subject) == (rule, subject):
                frauds[act.fraud].append(moment)
    whole = list(frauds.items())[:-1]  # the last one may go on after the end
    assert len(whole) > 10
    for fraud, moments in whole:
        assert len(rules.notice(rules.NOTHING, moments, rules.RULES[fraud.rule])[1]) == 1
    for (name, _), moments in honest.items():
        assert rules.notice(rules.NOTHING, moments, rules.RULES[name])[1] == []


def test_a_victim_has_peace_between_two_frauds() -> None:
    times: dict[tuple[str, str], list[tuple[Fraud, int]]] = defaultdict(list)
    for act in some(20_000):
        if act.fraud is not None:
            times[act.fraud.rule, act.fraud.subject].append((act.fraud, act.event.timestamp_ms))
    for told in times.values():
        for (one, one_ms), (other, other_ms) in pairwise(told):
            assert one == other or other_ms - one_ms > 3_600_000


def fields(act: Act) -> dict[str, Any]:
    assert act.event.value is not None
    found: dict[str, Any] = json.loads(act.event.value)
    return found


def signals(act: Act) -> list[tuple[str, str, Moment]]:
    """As the pipeline is meant to see it, by the words of the rules."""
    event = fields(act)
    by_event = Moment(event["at_ms"], event["event_id"], event["event_id"])
    if event["kind"] == "login" and not event["ok"]:
        return [(rules.FAILED_LOGINS.name, event["user_id"], by_event)]
    if event["kind"] == "purchase":
        country = by_event._replace(detail=event["country"])
        return [
            (rules.TWO_COUNTRIES.name, event["user_id"], country),
            (rules.CARD_BURST.name, event["card"], by_event),
        ]
    return []

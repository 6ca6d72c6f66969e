"""The built-in rules are those that the rules of Prometheus have, and say what they leave out."""

import re

import pytest

from penstock.alerts.rule import Rule
from penstock.alerts.rules import DEAD_LETTERS, MESSAGE_RATE, PRODUCE_SLOW, RULES, rules_of
from penstock.broker.alerts.produce_figures import BOUNDS_MS
from penstock.model.settings.alerts import ALERT_SETTINGS, AlertSettings
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.setting import InvalidSetting
from penstock.model.topic_name import holds_dead_letters, is_of_the_system
from rig.ops_files import alerts

THERE = {one["alert"]: one for one in alerts()}
# What Prometheus alone knows: that a node is down, and what it keeps a history of.
# tests/ops/test_rules_of_prometheus_fire.py makes each of them fire and clear.
OF_PROMETHEUS = {
    "PenstockNodeDown",
    "PenstockUncleanElection",
    "PenstockGroupLagRecords",
    "PenstockEventLoopLag",
    "PenstockDescriptorsRunOut",
}
MILLISECONDS = {"m": 60_000, "h": 3_600_000}


def test_both_have_the_same_rules_but_for_those_that_are_named() -> None:
    assert {rule.name for rule in RULES} == THERE.keys() - OF_PROMETHEUS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_has_the_threshold_time_severity_and_advice_of_prometheus(rule: Rule) -> None:
    there = THERE[rule.name]
    assert rule.severity.value == there["labels"]["severity"]
    assert rule.action == there["annotations"]["action"]
    number, unit = re.fullmatch(r"(\d+)([mh])", there["for"]).groups()  # type: ignore[union-attr]
    assert rule.fires_after_ms == int(number) * MILLISECONDS[unit]
    found = re.search(r"(>|<|!=) ([0-9.]+)(?: \* ([0-9]+))?\s*$", there["expr"])
    assert found is not None
    if rule == MESSAGE_RATE:
        assert float(found[2]) > 0  # a node has it by its setting alone
    elif found[1] != "!=":  # one active controller
        assert compared_with(rule) == float(found[2]) * float(found[3] or 1)


@pytest.mark.parametrize(
    "topic",
    [
        "orders.DLQ", "ordersDLQ", "dlq-orders", "orders.DLT", "commerce.dead-letters", "dlq",
        "dead_letter_queue.orders", "orders.deadletter", "my.Dead.Letters-topic.x", "ordersdlt",
        "orders", "dlqs", "deadline", "orders.dead", "dlqorders", "undead-letters",
        "__penstock_dlq", "__consumer_offsets",
    ],
)  # fmt: skip
def test_prometheus_knows_dead_letters_and_the_system_by_the_names_that_nodes_know(
    topic: str,
) -> None:
    def fits(rule: Rule) -> bool:
        matchers = re.findall(r'topic(=~|!~)"([^"]+)"', THERE[rule.name]["expr"])
        assert matchers
        return all(
            (re.fullmatch(text, topic) is not None) == (operator == "=~")
            for operator, text in matchers
        )

    assert fits(DEAD_LETTERS) == holds_dead_letters(topic)
    assert fits(MESSAGE_RATE) == (not is_of_the_system(topic))


def compared_with(rule: Rule) -> float:
    if rule == PRODUCE_SLOW:
        return min(bound for bound in BOUNDS_MS if bound > rule.threshold)
    return rule.threshold


def test_the_defaults_of_the_settings_are_the_thresholds_of_the_rules() -> None:
    found = rules_of(AlertSettings())
    assert found.rules == tuple(one for one in RULES if one != MESSAGE_RATE)
    assert [one.name for one in found.left_out] == [MESSAGE_RATE.name]


def test_settings_change_thresholds_and_times() -> None:
    given = {
        "penstock.alerts.enable": "true",
        "penstock.alerts.lag.ms": "5000",
        "penstock.alerts.messages.per.second": "700",
        "penstock.alerts.produce.error.ratio": "0.25",
        "penstock.alerts.produce.ms": "40",
        "penstock.alerts.for.ms": "0",
        "penstock.alerts.clear.ms": "250",
    }
    found = {rule.name: rule for rule in rules_of(parse_broker(given).alerts).rules}
    assert found["PenstockGroupLagSeconds"].threshold == 5
    assert found["PenstockMessageRate"].threshold == 700
    assert found["PenstockProduceErrors"].threshold == 0.25
    assert found["PenstockProduceSlow"].threshold == 40
    assert {rule.fires_after_ms for rule in found.values()} == {0}
    assert {rule.clears_after_ms for rule in found.values()} == {250}


@pytest.mark.parametrize(
    ("alert", "setting"),
    [
        ("PenstockGroupLagSeconds", "penstock.alerts.lag.ms"),
        ("PenstockGroupWithoutMembers", "penstock.alerts.unattended.lag.ms"),
        ("PenstockDiskFilling", "penstock.alerts.disk.ratio"),
        ("PenstockTransactionOpenTooLong", "penstock.alerts.transaction.ms"),
        ("PenstockCertificateExpires", "penstock.alerts.certificate.days"),
        ("PenstockMessageRate", "penstock.alerts.messages.per.second"),
        ("PenstockDeadLettersGrow", None),  # the time until it clears can be set
    ],
)
def test_what_an_alert_means_holds_whatever_the_settings_say(
    alert: str, setting: str | None
) -> None:
    [rule] = [one for one in RULES if one.name == alert]
    assert re.search(r"\d|minute", rule.means) is None
    assert setting is None or f"`{setting}`" in rule.means


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/x",
        "http:///secret",
        "host:80",
        "http://a b/",
        "http://u:p@host/",
        "http://host:0/",
    ],
)
def test_an_address_that_no_webhook_can_have_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        parse_broker({"penstock.alerts.webhook.url": url})
    assert url not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["http://host", "https://h-1.example:8443/a/b?c=d", "http://[::1]:80/", "http://1.2.3.4?x"],
)
def test_an_address_of_a_webhook_is_taken_as_it_is(url: str) -> None:
    given = parse_broker({"penstock.alerts.webhook.url": url})
    assert given.alerts.penstock_alerts_webhook_url == url


def test_alerts_are_off_unless_they_are_asked_for() -> None:
    assert parse_broker({}).alerts.penstock_alerts_enable is False
    assert ALERT_SETTINGS["penstock.alerts.webhook.url"].sensitive

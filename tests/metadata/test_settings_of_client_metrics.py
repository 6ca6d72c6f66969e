"""Subscriptions to the metrics of clients: what they can be, and which clients they are for."""

import pytest

from penstock.metadata.describe import describe_client_metrics
from penstock.model.configs import Source
from penstock.model.regex.pattern import TooManySteps
from penstock.model.settings.client_metrics import (
    CLIENT_METRICS_SETTINGS,
    MATCHED,
    IntervalOutOfRange,
    parse_subscription,
)
from penstock.model.settings.setting import InvalidSetting, UnknownSetting


def is_for(match: str, **attributes: str) -> bool:
    everything = dict.fromkeys(MATCHED, "") | attributes
    return parse_subscription({"match": match}).is_for(everything)


def test_a_subscription_has_kafkas_defaults() -> None:
    subscription = parse_subscription({})
    assert subscription.interval_ms == 300_000
    assert subscription.metrics == frozenset()
    assert is_for("")


def test_lists_are_taken_apart_at_commas() -> None:
    subscription = parse_subscription({"metrics": " org.a , org.b,", "interval.ms": " 100 "})
    assert subscription.metrics == {"org.a", "org.b", ""}
    assert subscription.interval_ms == 100


@pytest.mark.parametrize("interval", ["99", "0", "-1", "3600001"])
def test_an_interval_is_within_kafkas_bounds(interval: str) -> None:
    with pytest.raises(IntervalOutOfRange):
        parse_subscription({"interval.ms": interval})


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownSetting):
        parse_subscription({"interval": "100"})


@pytest.mark.parametrize(
    "match",
    ["client_id", "client_id=", "=a", "client=a", "client_id=a=b", "client_id=(", "client_id=a,"],
)
def test_what_is_no_pattern_is_refused(match: str) -> None:
    with pytest.raises(InvalidSetting, match="match"):
        parse_subscription({"match": match})


def test_every_pattern_matches_the_whole_of_its_attribute() -> None:
    match = "client_id = order-.*, client_software_name=librdkafka"
    assert is_for(match, client_id="order-7", client_software_name="librdkafka")
    assert not is_for(match, client_id="my-order-7", client_software_name="librdkafka")
    assert not is_for(match, client_id="order-7", client_software_name="apache-kafka-java")
    assert not is_for(match, client_id="order-7")


def test_a_pattern_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(TooManySteps):
        is_for("client_id=(a|b)*a(a|b){150}c", client_id="ab" * 5_000)


def test_what_is_described_is_set_or_the_default() -> None:
    described = {one.name: one for one in describe_client_metrics({"metrics": "org.a, org.b"})}
    assert described.keys() == CLIENT_METRICS_SETTINGS.keys()
    assert (described["metrics"].value, described["metrics"].source) == (
        "org.a,org.b",
        Source.CLIENT_METRICS,
    )
    assert (described["interval.ms"].value, described["interval.ms"].source) == (
        "300000",
        Source.DEFAULT,
    )

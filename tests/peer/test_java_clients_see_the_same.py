"""Java's AdminClient and its consumer of the consumer protocol see the same as on Apache Kafka."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from rig.apache_kafka.agent import KafkaAgent
from rig.apache_kafka.broker import ApacheKafka
from rig.serve import ServedNode

NUMBERS = itertools.count(1)
Play = Callable[[str], tuple[Any, Any]]

# Given to the Apache Kafka of the tests and not to their Penstock: see ApacheKafka, and `settings`
# in conftest.py. Kafka itself writes min.insync.replicas into a new cluster's dynamic settings.
GIVEN_TO_KAFKA_ALONE = {
    "advertised.listeners",
    "controller.listener.names",
    "controller.quorum.voters",
    "group.consumer.assignment.interval.ms",
    "listener.security.protocol.map",
    "min.insync.replicas",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "process.roles",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
}


@pytest.fixture
def play(kafka_agent: KafkaAgent, apache_kafka: ApacheKafka, served_node: ServedNode) -> Play:
    """Plays a scenario of ClientScenarios.java on Penstock and on Apache Kafka."""

    def on_both(scenario: str) -> tuple[Any, Any]:
        name = f"scenario-{next(NUMBERS)}"
        ours, theirs = (
            kafka_agent.ask(f"scenario_{scenario}", bootstrap=bootstrap, name=name)
            for bootstrap in (served_node.bootstrap, apache_kafka.bootstrap)
        )
        return ours, theirs

    return on_both


def test_topics_are_described_and_deleted_by_their_ids(play: Play) -> None:
    ours, theirs = play("topics_by_id")
    assert ours == theirs
    described, *outcomes = ours
    assert described.endswith("has 2, same id true")
    unknown = "UnknownTopicIdException"
    assert outcomes == [f"unknown: {unknown}", "deleted: ok", f"deleted again: {unknown}"]


def test_a_consumer_with_a_pattern_goes_on_when_a_topic_appears(play: Play) -> None:
    ours, theirs = play("pattern")
    assert ours == theirs
    first, second = ours
    assert first.endswith("-first")
    assert second.endswith("-second")


def test_static_members_are_removed_at_work_and_away(play: Play) -> None:
    ours, theirs = play("removal")
    assert ours == theirs
    nobody = "Consumer group, members []"
    assert ours == [
        "of another name: UnknownMemberIdException",
        "at work: ok",
        "was put out and joined again",
        "away: Consumer group, members [i1]",
        "removed: ok",
        f"then: {nobody}",
        "removed again: UnknownMemberIdException",
        "all: ok",
        f"then: {nobody}",
    ]


def test_owners_of_configurations_are_listed(play: Play) -> None:
    ours, theirs = play("listed_configs")
    assert ours == theirs
    group, topic, broker, *rest = ours
    assert group.startswith("GROUP scenario-")
    assert topic.startswith("TOPIC scenario-")
    assert broker == "BROKER 1"
    assert rest == ["all have the group true", "50000 by DYNAMIC_GROUP_CONFIG"]


def test_settings_of_a_broker_have_the_same_sources(play: Play) -> None:
    ours, theirs = play("config_sources")
    compared = theirs.keys() - GIVEN_TO_KAFKA_ALONE
    assert {name: ours[name] for name in compared} == {name: theirs[name] for name in compared}
    given = "STATIC_BROKER_CONFIG"
    assert {ours[name] for name in ("listeners", "log.dirs", "auto.create.topics.enable")} == {
        given
    }

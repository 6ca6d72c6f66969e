"""Records of a topic that was made since the last look count from its first one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.alerts.rules import DEAD_LETTERS, MESSAGE_RATE
from penstock.broker.alerts.record_growth import RecordGrowth
from penstock.metadata.image.topic import TopicImage
from penstock.model.identity import NodeId
from penstock.model.offset import LeaderEpoch
from rig.produced import NOW_MS, produced
from rig.services import NODE, OTHER, Broker

LETTERS = "orders.DLQ"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    one = Broker(tmp_path)
    yield one
    one.close()


@pytest.fixture
def growth(broker: Broker) -> RecordGrowth:
    return RecordGrowth(broker.partitions, lambda: broker.services.image)


def write(broker: Broker, topic: str, count: int, *, index: int = 0) -> None:
    broker.partition(topic, index).append(produced(count), all_acks=True, now_ms=NOW_MS)


def with_partitions(broker: Broker, topic: str, count: int) -> TopicImage:
    """The topic with as many partitions, all led as its first one is."""
    now = broker.services.image.topics_by_name[topic]
    return TopicImage(name=topic, topic_id=now.topic_id, partitions=(now.partitions[0],) * count)


def test_the_letter_that_makes_its_topic_is_counted(broker: Broker, growth: RecordGrowth) -> None:
    growth.look(now_ms=0)
    broker.create_topic(LETTERS)
    write(broker, LETTERS, 1)
    assert growth.look(now_ms=1_000)[DEAD_LETTERS.name] == {LETTERS: 1}
    assert growth.look(now_ms=2_000)[DEAD_LETTERS.name] == {LETTERS: 0}


def test_letters_from_before_the_first_look_are_not_new(
    broker: Broker, growth: RecordGrowth
) -> None:
    broker.create_topic(LETTERS)
    write(broker, LETTERS, 3)
    assert growth.look(now_ms=0)[DEAD_LETTERS.name] == {}
    assert growth.look(now_ms=1_000)[DEAD_LETTERS.name] == {LETTERS: 0}


def test_a_topic_that_is_made_again_counts_from_its_start(
    broker: Broker, growth: RecordGrowth
) -> None:
    broker.create_topic(LETTERS)
    write(broker, LETTERS, 2)
    growth.look(now_ms=0)
    broker.delete_topic(LETTERS)
    broker.create_topic(LETTERS)
    write(broker, LETTERS, 3)
    assert growth.look(now_ms=1_000)[DEAD_LETTERS.name] == {LETTERS: 3}


def test_a_partition_that_is_added_counts_from_its_start(
    broker: Broker, growth: RecordGrowth
) -> None:
    broker.create_topic("orders")
    growth.look(now_ms=0)
    broker.change_topic(with_partitions(broker, "orders", 2))
    write(broker, "orders", 4, index=1)
    assert growth.look(now_ms=2_000)[MESSAGE_RATE.name] == {"": 2}


@pytest.mark.parametrize("was", [OTHER, None])
def test_letters_that_another_leader_took_are_not_new(
    broker: Broker, growth: RecordGrowth, was: NodeId | None
) -> None:
    broker.create_topic(LETTERS, leader=NODE, replicas=(NODE, OTHER))
    write(broker, LETTERS, 5)
    topic = broker.services.image.topics_by_name[LETTERS]
    [here] = topic.partitions
    broker.change_topic(
        replace(topic, partitions=(replace(here, leader=was, leader_epoch=LeaderEpoch(1)),))
    )
    growth.look(now_ms=0)
    broker.change_topic(replace(topic, partitions=(replace(here, leader_epoch=LeaderEpoch(2)),)))
    assert growth.look(now_ms=1_000)[DEAD_LETTERS.name] == {}

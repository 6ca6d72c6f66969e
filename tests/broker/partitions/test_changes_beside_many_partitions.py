"""A broker that is told of a change does not look at the partitions that it does not concern."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from penstock.metadata.image.image import ConfigResource, Delta, Image
from penstock.metadata.image.topic import TopicImage
from penstock.model.configs import ResourceKind
from penstock.model.identity import TopicId
from rig.calls import count_all_calls
from rig.services import NODE, OTHER, Broker

FEW, MANY = 10, 300
GROWTH_MAX = 1.1

Step = tuple[Delta, Image]


def change_one_partition(image: Image) -> Step:
    topic = image.topics_by_name["t"]
    [before] = topic.partitions
    after = replace(before, partition_epoch=before.partition_epoch + 1)
    changed = replace(topic, partitions=(after,))
    return Delta(topics_changed=(changed,)), with_topic(image, changed)


def change_a_setting(image: Image) -> Step:
    return Delta(configs_changed=(ConfigResource(ResourceKind.TOPIC, "t"),)), image


def add_a_topic(image: Image) -> Step:
    number = len(image.topics_by_name) + 100
    topic = replace(
        image.topics_by_name["t"], name=f"t-{number}", topic_id=TopicId(number.to_bytes(16))
    )
    return Delta(topics_created=(topic,)), with_topic(image, topic)


def with_topic(image: Image, topic: TopicImage) -> Image:
    return replace(
        image,
        topics_by_name={**image.topics_by_name, topic.name: topic},
        topics_by_id={**image.topics_by_id, topic.topic_id: topic},
    )


@pytest.mark.parametrize("change", [change_one_partition, change_a_setting, add_a_topic])
def test_a_change_takes_as_many_calls_beside_many_partitions_as_beside_few(
    broker: Broker, change: Callable[[Image], Step]
) -> None:
    def calls() -> int:
        delta, broker.services.image = change(broker.services.image)
        return count_all_calls(partial(broker.partitions.apply, delta, broker.services.image))

    broker.create_topic("t", replicas=(NODE, OTHER))
    broker.create_topic("few", FEW)
    calls()  # methods are compiled at their first call
    few = calls()
    broker.create_topic("many", MANY)
    many = calls()
    broker.partitions.check()
    assert 0 < many <= few * GROWTH_MAX

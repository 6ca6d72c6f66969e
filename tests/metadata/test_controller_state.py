"""The controller's own state and the image of the brokers say the same after any history."""

from typing import Any

from hypothesis import given, settings

from penstock.metadata.controller.state import ControllerState, Place
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.wire.messages.delete_topics import DeleteTopicsRequest
from penstock.wire.messages.metadata_records.broker import (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord
from rig.cluster import Cluster
from rig.metadata_histories import histories, live

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def assert_same(state: ControllerState, image: Image) -> None:
    assert {
        (topic.name, topic.topic_id): tuple(topic.partitions)
        for topic in state.topics_by_id.values()
    } == {(topic.name, topic.topic_id): topic.partitions for topic in image.topics_by_id.values()}
    assert state.brokers == image.brokers
    assert state.controllers == image.controllers
    assert state.configs == image.configs
    assert state.features == image.features
    assert state.next_producer_id == image.next_producer_id


@settings(max_examples=100)
@given(history=histories)
def test_state_and_image_agree(history: list[tuple[object, ...]]) -> None:
    cluster = live(history)
    assert_same(cluster.state, cluster.image)


def test_partitions_are_found_by_their_leader_and_by_their_replicas() -> None:
    cluster = Cluster(brokers=3)
    topic_id = cluster.create("orders", partitions=3, replicas=2)
    places = [Place(topic_id, index) for index in range(3)]
    state, nodes = cluster.state, (ONE, TWO, THREE)
    assert sorted(place for node in nodes for place in state.led_by(node)) == places
    replicated = sorted(place for node in nodes for place in state.replicated_by(node))
    assert replicated == sorted(places * 2)

    (place,) = state.led_by(ONE)
    moved = PartitionChangeRecord(
        topic_id=place.topic_id, partition_id=place.partition, leader=TWO, replicas=[2], isr=[2]
    )
    state.apply(moved)
    state.check()
    assert place not in state.led_by(ONE)
    assert place not in state.replicated_by(ONE)
    assert place in state.led_by(TWO)

    cluster.ask(DeleteTopicsRequest(topic_names=["orders"]))
    assert [list(state.replicated_by(node)) for node in nodes] == [[], [], []]


def test_brokers_are_found_by_their_rack() -> None:
    state = ControllerState()
    for node, rack in ((1, "a"), (2, "b"), (3, "a"), (1, "b"), (2, None)):
        state.apply(RegisterBrokerRecord(broker_id=node, broker_epoch=1, rack=rack))
        state.check()
    assert {rack: list(nodes) for rack, nodes in state.racks.items()} == {
        "a": [THREE],
        "b": [ONE],
        None: [TWO],
    }
    state.apply(UnregisterBrokerRecord(broker_id=3, broker_epoch=1))
    state.check()
    assert "a" not in state.racks


class NotWalked(dict[Any, Any]):
    """A dict that may be asked for keys, and not be walked over."""

    def __iter__(self) -> Any:
        raise AssertionError("a decision about one topic walks over all of them")

    items = keys = values = __iter__  # type: ignore[assignment]  # all raise


def test_decisions_about_one_topic_do_not_walk_over_the_others() -> None:
    cluster = Cluster()
    for index in range(20):
        cluster.create(f"topic_{index}", retention_ms="5")
    state = cluster.state
    state.topics_by_name = NotWalked(state.topics_by_name)
    state.topics_by_id = NotWalked(state.topics_by_id)
    state.configs = NotWalked(state.configs)
    state.names_by_collision_key = NotWalked(state.names_by_collision_key)
    cluster.check_state = False
    cluster.create("an.other_topic", retention_ms="7")
    assert cluster.try_create("topic.1").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    cluster.ask(DeleteTopicsRequest(topic_names=["topic_3"]))
    cluster.register(ONE, incarnation=1)

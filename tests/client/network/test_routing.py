"""What a client knows of the cluster, reply by reply."""

from penstock.client.network.routing import (
    BrokerView,
    ClusterView,
    NamedLeader,
    led_elsewhere,
    merged,
)
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.offset import LeaderEpoch
from penstock.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.world.ports import Address

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = bytes(range(16))


def reply(*, leader: int, epoch: int, topic_id: bytes = TOPIC_ID) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host="h", port=n) for n in (1, 2)],
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name="orders",
                topic_id=topic_id,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=0, leader_id=leader, leader_epoch=epoch
                    )
                ],
            )
        ],
    )


def test_leader_is_the_one_that_the_latest_reply_names() -> None:
    view = merged(ClusterView(), reply(leader=1, epoch=3), all_topics=False)
    assert view.leader_of(ORDERS) == NodeId(1)
    view = merged(view, reply(leader=2, epoch=4), all_topics=False)
    assert view.leader_of(ORDERS) == NodeId(2)


def test_broker_that_lags_behind_does_not_take_back_a_newer_leader() -> None:
    view = merged(ClusterView(), reply(leader=2, epoch=4), all_topics=False)
    view = merged(view, reply(leader=1, epoch=3), all_topics=False)
    assert view.leader_of(ORDERS) == NodeId(2)


def test_topic_made_anew_starts_over() -> None:
    view = merged(ClusterView(), reply(leader=2, epoch=4), all_topics=False)
    view = merged(view, reply(leader=1, epoch=0, topic_id=bytes(16)), all_topics=False)
    assert view.leader_of(ORDERS) == NodeId(1)


def test_partition_without_a_leader_has_none() -> None:
    view = merged(ClusterView(), reply(leader=-1, epoch=0), all_topics=False)
    assert view.leader_of(ORDERS) is None
    assert view.partition(ORDERS) is not None


def test_leader_that_is_not_among_the_brokers_can_not_be_asked() -> None:
    view = merged(ClusterView(), reply(leader=9, epoch=0), all_topics=False)
    assert view.leader_of(ORDERS) is None


def test_error_of_a_topic_is_kept_and_its_old_partitions_forgotten() -> None:
    view = merged(ClusterView(), reply(leader=1, epoch=0), all_topics=False)
    gone = MetadataResponse(
        topics=[
            MetadataResponseTopic(name="orders", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        ]
    )
    view = merged(view, gone, all_topics=False)
    assert view.errors == {"orders": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert view.leader_of(ORDERS) is None


def test_topic_of_an_old_broker_has_no_id() -> None:
    view = merged(ClusterView(), reply(leader=1, epoch=0, topic_id=bytes(16)), all_topics=False)
    assert not view.ids_known(["orders"])


def test_reply_about_all_topics_forgets_those_it_does_not_name() -> None:
    view = merged(ClusterView(), reply(leader=1, epoch=0), all_topics=False)
    view = merged(view, MetadataResponse(), all_topics=True)
    assert view.topics == {}


def named(*, leader: int, epoch: int, topic: str = "orders", index: int = 0) -> NamedLeader:
    broker = BrokerView(node_id=NodeId(leader), address=Address(host="elsewhere", port=leader))
    return NamedLeader(
        partition=TopicPartition(topic, index), leader=broker, leader_epoch=LeaderEpoch(epoch)
    )


def test_leader_that_a_refusal_names_is_the_leader_from_then_on() -> None:
    view = merged(ClusterView(), reply(leader=1, epoch=3), all_topics=False)
    view = led_elsewhere(view, [named(leader=3, epoch=4)])
    assert view.leader_of(ORDERS) == NodeId(3)
    assert view.brokers[NodeId(3)].address == Address(host="elsewhere", port=3)


def test_refusal_that_names_the_leader_of_an_earlier_epoch_changes_nothing() -> None:
    view = merged(ClusterView(), reply(leader=1, epoch=3), all_topics=False)
    assert led_elsewhere(view, [named(leader=2, epoch=3)]) == view
    assert led_elsewhere(view, [named(leader=2, epoch=2)]) == view


def test_refusal_that_names_the_leader_of_an_unknown_partition_changes_nothing() -> None:
    view = merged(ClusterView(), reply(leader=1, epoch=3), all_topics=False)
    assert led_elsewhere(view, [named(leader=2, epoch=9, topic="payments")]) == view
    assert led_elsewhere(view, [named(leader=2, epoch=9, index=1)]) == view

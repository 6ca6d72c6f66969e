"""Registration, new leader epochs after a restart, and producer ids."""

import pytest

from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from rig.cluster import Cluster

NODE = NodeId(1)


def test_a_broker_is_fenced_until_it_is_ready() -> None:
    cluster = Cluster(brokers=0)
    cluster.register(NODE)
    assert cluster.image.brokers[NODE].fenced
    cluster.unfence(NODE)
    assert not cluster.image.brokers[NODE].fenced


def test_a_later_registration_has_a_larger_epoch() -> None:
    cluster = Cluster()
    first = cluster.image.brokers[NODE].epoch
    second = cluster.register(NODE, incarnation=1)
    assert second > first


def test_the_same_process_may_register_again_without_effect() -> None:
    cluster = Cluster()
    first = cluster.image.brokers[NODE]
    assert cluster.register(NODE) == first.epoch
    assert cluster.image.brokers[NODE] == first


def test_a_broker_that_comes_back_leads_in_new_epochs() -> None:
    cluster = Cluster()
    cluster.create("orders", partitions=3)
    cluster.register(NODE, incarnation=1)
    cluster.unfence(NODE)
    partitions = cluster.topic("orders").partitions
    assert [partition.leader_epoch for partition in partitions] == [2, 2, 2]
    assert [partition.leader for partition in partitions] == [NODE] * 3


def test_a_broker_that_stopped_cleanly_leads_in_the_epochs_that_it_had() -> None:
    cluster = Cluster()
    cluster.create("orders", partitions=3)
    before = cluster.topic("orders").partitions
    stopped = cluster.image.brokers[NODE].epoch
    cluster.register(NODE, incarnation=1, previous_broker_epoch=stopped)
    assert cluster.topic("orders").partitions == before


def test_a_clean_stop_of_an_earlier_process_does_not_count() -> None:
    cluster = Cluster()
    cluster.create("orders")
    stopped = cluster.image.brokers[NODE].epoch
    cluster.register(NODE, incarnation=1, previous_broker_epoch=stopped)
    cluster.register(NODE, incarnation=2, previous_broker_epoch=stopped)  # it crashed in between
    assert cluster.topic("orders").partitions[0].leader_epoch == 1


def test_more_partitions_than_one_batch_holds_are_led_anew_in_one_decision() -> None:
    cluster = Cluster()
    cluster.create("a", partitions=DECISION_RECORDS_MAX - 1)
    cluster.create("b", partitions=5)
    cluster.register(NODE, incarnation=1)
    epochs = {
        partition.leader_epoch
        for topic in cluster.image.topics_by_id.values()
        for partition in topic.partitions
    }
    assert epochs == {1}


def test_a_process_of_the_past_is_refused() -> None:
    cluster = Cluster()
    stale = cluster.image.brokers[NODE].epoch
    cluster.register(NODE, incarnation=1)
    for request in (
        BrokerHeartbeatRequest(broker_id=NODE, broker_epoch=stale, current_metadata_offset=stale),
        AllocateProducerIdsRequest(broker_id=NODE, broker_epoch=stale),
    ):
        with pytest.raises(RequestError) as error:
            cluster.ask(request)
        assert error.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_blocks_of_producer_ids_never_overlap() -> None:
    cluster = Cluster(brokers=3)
    given: set[int] = set()
    for turn in range(9):
        node = NodeId(turn % 3 + 1)
        epoch = cluster.image.brokers[node].epoch
        block = cluster.ask(AllocateProducerIdsRequest(broker_id=node, broker_epoch=epoch))
        assert isinstance(block, AllocateProducerIdsResponse)
        first = block.producer_id_start
        ids = set(range(first, first + block.producer_id_len))
        assert len(ids) == 1000
        assert not ids & given
        given |= ids

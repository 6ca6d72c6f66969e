"""Each API that reads or writes partitions sends the client of another node's partition away."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from penstock.broker.api import (
    delete_records,
    describe_cluster,
    describe_producers,
    describe_topic_partitions,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
)
from penstock.broker.api import fetch as fetch_api
from penstock.broker.api import produce as produce_api
from penstock.broker.request.api_table import AnyApi
from penstock.model.error import ErrorCode
from penstock.model.identity import NO_TOPIC_ID, TopicId
from penstock.wire.definition import Message, Struct
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from penstock.wire.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from penstock.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from penstock.wire.messages.describe_topic_partitions import TopicRequest as TopicToDescribe
from penstock.wire.messages.fetch import FetchResponse
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from rig.data_requests import at, fetch_request
from rig.produced import produced
from rig.services import NODE, OTHER, Broker

TOPIC = "elsewhere"
EPOCH = 4
OTHERS_PORT = 9093
NO_LEADER = -1

ASKED: list[tuple[AnyApi, Message, type[Message], int]] = [
    (
        list_offsets.API,
        ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(
                    name=TOPIC,
                    partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)],
                )
            ]
        ),
        ListOffsetsResponse,
        7,
    ),
    (
        offset_for_leader_epoch.API,
        OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic=TOPIC, partitions=[OffsetForLeaderPartition(partition=0)]
                )
            ]
        ),
        OffsetForLeaderEpochResponse,
        4,
    ),
    (
        delete_records.API,
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(offset=-1)])]
        ),
        DeleteRecordsResponse,
        2,
    ),
    (
        describe_producers.API,
        DescribeProducersRequest(topics=[TopicRequest(name=TOPIC, partition_indexes=[0])]),
        DescribeProducersResponse,
        0,
    ),
]


@pytest.mark.parametrize(
    ("api", "request_", "reply", "version"), ASKED, ids=[one[0].key.name for one in ASKED]
)
@pytest.mark.parametrize("leader", [OTHER, None], ids=["led elsewhere", "without a leader"])
def test_what_is_not_led_here_is_refused(
    broker: Broker, api: AnyApi, request_: Message, reply: type[Message], version: int, leader: None
) -> None:
    broker.create_topic(TOPIC, leader=leader, replicas=(OTHER,))
    answer = broker.ask(api, request_, reply, version=version)
    assert list(error_codes(answer)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize("version", [16, 17, 18])
def test_a_fetch_names_the_leader_of_a_topic_that_was_never_led_here(
    broker: Broker, version: int
) -> None:
    topic_id = broker.create_topic(TOPIC, leader=OTHER, replicas=(OTHER,), leader_epoch=EPOCH)
    asked = fetch_request("", at(0), topic_id=topic_id)
    reply = broker.ask(fetch_api.API, asked, FetchResponse, version=version)
    [answer] = reply.responses[0].partitions
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader is not None
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (OTHER, EPOCH)
    assert [(node.node_id, node.port) for node in reply.node_endpoints] == [(OTHER, OTHERS_PORT)]


@pytest.mark.parametrize("version", [10, 12, 13])
def test_a_produce_names_the_leader_by_name_and_by_id(broker: Broker, version: int) -> None:
    topic_id = broker.create_topic(TOPIC, leader=OTHER, replicas=(OTHER,), leader_epoch=EPOCH)
    reply = produce(broker, topic_id, version=version)
    [answer] = reply.responses[0].partition_responses
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader is not None
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (OTHER, EPOCH)
    assert [(node.node_id, node.port) for node in reply.node_endpoints] == [(OTHER, OTHERS_PORT)]


def test_no_leader_is_named_where_there_is_none(broker: Broker) -> None:
    topic_id = broker.create_topic(TOPIC, leader=None, replicas=(OTHER,))
    produced_ = produce(broker, topic_id, version=13)
    [produce_answer] = produced_.responses[0].partition_responses
    asked = fetch_request("", at(0), topic_id=topic_id)
    fetched = broker.ask(fetch_api.API, asked, FetchResponse, version=18)
    [fetch_answer] = fetched.responses[0].partitions
    for answer in (produce_answer, fetch_answer):
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert answer.current_leader is None
    assert produced_.node_endpoints == fetched.node_endpoints == []


def test_metadata_names_each_leader_or_none(broker: Broker) -> None:
    broker.create_topic("here")
    broker.create_topic(TOPIC, leader=OTHER, replicas=(OTHER,))
    broker.create_topic("leaderless", leader=None, replicas=(OTHER,))
    names = ("here", TOPIC, "leaderless")
    reply = broker.ask(
        metadata.API,
        MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]),
        MetadataResponse,
        version=12,
    )
    assert [
        (topic.partitions[0].error_code, topic.partitions[0].leader_id) for topic in reply.topics
    ] == [
        (ErrorCode.NONE, NODE),
        (ErrorCode.NONE, OTHER),
        (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER),
    ]
    described = broker.ask(
        describe_topic_partitions.API,
        DescribeTopicPartitionsRequest(topics=[TopicToDescribe(name=name) for name in names]),
        DescribeTopicPartitionsResponse,
        version=0,
    )
    leaders = {topic.name: topic.partitions[0].leader_id for topic in described.topics}
    assert leaders == {"here": NODE, TOPIC: OTHER, "leaderless": NO_LEADER}


def produce(broker: Broker, topic_id: TopicId, *, version: int) -> ProduceResponse:
    by_id = version >= 13
    topic = TopicProduceData(
        name="" if by_id else TOPIC,
        topic_id=topic_id if by_id else NO_TOPIC_ID,
        partition_data=[PartitionProduceData(index=0, records=produced())],
    )
    asked = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])
    return broker.ask(produce_api.API, asked, ProduceResponse, version=version)


def error_codes(struct: Struct) -> Iterator[int]:
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        if field.name == "error_code":
            yield value
        for item in value if isinstance(value, list) else ():
            if isinstance(item, Struct):
                yield from error_codes(item)


def test_the_controller_that_clients_are_told_of_is_a_broker_that_they_are_told_of(
    broker: Broker,
) -> None:
    image = broker.services.image
    fenced = replace(image.brokers[NODE], fenced=True)
    for brokers, named in (
        (image.brokers, NODE),
        ({**image.brokers, NODE: fenced}, OTHER),
        ({NODE: fenced}, NO_LEADER),
    ):
        broker.services.image = replace(image, brokers=brokers)
        reply = broker.ask(metadata.API, MetadataRequest(topics=[]), MetadataResponse, version=12)
        assert reply.controller_id == named
        for with_fenced in (False, True):
            asked = DescribeClusterRequest(include_fenced_brokers=with_fenced)
            described = broker.ask(describe_cluster.API, asked, DescribeClusterResponse, version=2)
            assert described.controller_id == named

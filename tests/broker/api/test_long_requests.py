"""A request of many entries keeps no other client waiting, and makes no reply out of proportion."""

import asyncio
from collections.abc import Awaitable
from typing import cast

import pytest

from penstock.broker.api import (
    add_partitions_to_txn,
    delete_records,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    fetch,
    find_coordinator,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    write_txn_markers,
)
from penstock.broker.request.api_table import AnyApi
from penstock.model.limit import ENTRIES_PER_TURN
from penstock.wire.codec import encode, encode_parts
from penstock.wire.definition import Message
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from penstock.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from penstock.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from penstock.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.wire.messages.write_txn_markers import WriteTxnMarkersResponse
from rig.raw_producer import marker_request
from rig.services import Broker

MANY = 20 * ENTRIES_PER_TURN
TOPIC = 2

LONG: list[tuple[AnyApi, int, Message]] = [
    (
        fetch.API,
        11,
        FetchRequest(
            max_wait_ms=1000,
            topics=[
                FetchTopic(topic="t", partitions=[FetchPartition(partition=i) for i in range(MANY)])
            ],
        ),
    ),
    (
        list_offsets.API,
        4,
        ListOffsetsRequest(
            topics=[
                ListOffsetsTopic(
                    name="t",
                    partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)] * MANY,
                )
            ]
        ),
    ),
    (
        metadata.API,
        4,
        MetadataRequest(
            topics=[MetadataRequestTopic(name=f"t{i}") for i in range(MANY)],
            allow_auto_topic_creation=False,
        ),
    ),
    (
        offset_for_leader_epoch.API,
        3,
        OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition()] * MANY)]
        ),
    ),
    (
        find_coordinator.API,
        4,
        FindCoordinatorRequest(coordinator_keys=[f"g{i}" for i in range(MANY)]),
    ),
    (
        delete_records.API,
        1,
        DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition()] * MANY)]
        ),
    ),
    (
        describe_producers.API,
        0,
        DescribeProducersRequest(
            topics=[TopicRequest(name="t", partition_indexes=list(range(MANY)))]
        ),
    ),
    (
        describe_configs.API,
        1,
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=TOPIC, resource_name=f"t{i}")
                for i in range(MANY)
            ]
        ),
    ),
    (write_txn_markers.API, 1, marker_request(7, 0, ("t", range(MANY)))),
    (
        add_partitions_to_txn.API,
        3,
        AddPartitionsToTxnRequest(
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(range(MANY)))]
        ),
    ),
]


@pytest.mark.parametrize(
    ("api", "version", "request_"), LONG, ids=[api.key.name for api, _, _ in LONG]
)
def test_others_get_their_turn_while_it_is_answered(
    broker: Broker, api: AnyApi, version: int, request_: Message
) -> None:
    async def scenario() -> int:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(other())
        response = broker.send(api, request_, version=version)
        assert not isinstance(response, Message), "answered without a pause"
        assert isinstance(await cast(Awaitable[Message], response), Message)
        beside.cancel()
        return turns

    broker.create_topic("t")
    broker.create_topic("__consumer_offsets")
    assert asyncio.run(scenario()) >= MANY // ENTRIES_PER_TURN - 1


def test_few_entries_are_answered_at_once(broker: Broker) -> None:
    broker.create_topic("t", 3)
    assert isinstance(broker.send(metadata.API, MetadataRequest(topics=None), version=9), Message)


def test_large_fetch_is_answered_partition_by_partition_in_order(broker: Broker) -> None:
    broker.create_topic("t", 2)
    partitions = [FetchPartition(partition=i, partition_max_bytes=1) for i in range(MANY)]
    request = FetchRequest(topics=[FetchTopic(topic="t", partitions=partitions)])
    response = broker.ask(fetch.API, request, FetchResponse, version=11)
    (topic,) = response.responses
    assert [answer.partition_index for answer in topic.partitions] == list(range(MANY))
    assert [answer.error_code for answer in topic.partitions] == [0, 0] + [3] * (MANY - 2)
    # Partitions without records cost no buffer of their own.
    assert len(encode_parts(response, 11)) == 1


def test_settings_of_a_topic_named_many_times_are_told_once(broker: Broker) -> None:
    broker.create_topic("t")
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=keys)
        for keys in [None, [], ["retention.ms"], ["retention.ms", "retention.ms"]]
        for _ in range(1000)
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True)
    response = broker.ask(describe_configs.API, request, DescribeConfigsResponse, version=1)
    all_of_them, one_of_them = response.results
    assert len(all_of_them.configs) > 20
    assert [config.name for config in one_of_them.configs] == ["retention.ms"]
    assert len(encode(response, 1)) < len(encode(request, 1))


def test_partition_named_many_times_is_described_once(broker: Broker) -> None:
    broker.create_topic("t", 2)
    producers = DescribeProducersRequest(
        topics=[TopicRequest(name="t", partition_indexes=[0, 1, 0])] * 2
    )
    told = broker.ask(describe_producers.API, producers, DescribeProducersResponse, version=0)
    (topic,) = told.topics
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    sizes = DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic="t", partitions=[0, 1, 0])] * 2
    )
    (result,) = broker.ask(describe_log_dirs.API, sizes, DescribeLogDirsResponse, version=4).results
    (found,) = result.topics
    assert [partition.partition_index for partition in found.partitions] == [0, 1]


def test_partition_named_many_times_gets_one_marker(broker: Broker) -> None:
    broker.create_topic("t", 2)
    request = marker_request(7, 0, ("t", [0, 1, 0]), ("t", [0]))
    told = broker.ask(write_txn_markers.API, request, WriteTxnMarkersResponse, version=1)
    ((topic,),) = [marker.topics for marker in told.markers]
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    assert [broker.partition("t", index).log.end_offset for index in (0, 1)] == [1, 1]

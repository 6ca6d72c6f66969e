"""A refusal of a whole request goes out in a form that every version of the API can carry."""

from typing import Any

import pytest

from penstock.broker.api import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_topic_partitions,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    metadata,
)
from penstock.model.error import ErrorCode
from penstock.wire.codec import encode
from penstock.wire.definition import Message
from penstock.wire.messages import alter_configs as alter
from penstock.wire.messages import incremental_alter_configs as incremental
from penstock.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.wire.messages.describe_cluster import DescribeClusterRequest
from penstock.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from penstock.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

REQUESTS: list[tuple[Any, Message]] = [
    (alter_configs.API, alter.AlterConfigsRequest(resources=[alter.AlterConfigsResource()])),
    (create_partitions.API, CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t")])),
    (create_topics.API, CreateTopicsRequest(topics=[CreatableTopic(name="t")])),
    (delete_topics.API, DeleteTopicsRequest(topic_names=["t"])),
    (delete_topics.API, DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])),
    (describe_cluster.API, DescribeClusterRequest()),
    (describe_configs.API, DescribeConfigsRequest(resources=[DescribeConfigsResource()])),
    (
        describe_topic_partitions.API,
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]),
    ),
    (find_coordinator.API, FindCoordinatorRequest(key="g", coordinator_keys=["g"])),
    (
        incremental_alter_configs.API,
        incremental.IncrementalAlterConfigsRequest(resources=[incremental.AlterConfigsResource()]),
    ),
    (init_producer_id.API, InitProducerIdRequest()),
    (metadata.API, MetadataRequest(topics=[MetadataRequestTopic(name="t")])),
    (metadata.API, MetadataRequest(topics=None)),
]


@pytest.mark.parametrize(
    ("api", "request_"), REQUESTS, ids=[type(request).__name__ for _, request in REQUESTS]
)
def test_a_refusal_can_be_encoded_in_every_version(api: Any, request_: Message) -> None:
    reply = api.refuse(request_, ErrorCode.NOT_CONTROLLER, "elsewhere")
    for version in range(api.versions.min, api.versions.max + 1):
        assert encode(reply, version)

"""A client is shown what it has rights for, and of the rest not even whether it exists."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.error import ErrorCode
from penstock.records.build import BatchBuilder
from penstock.security.acl.words import CLUSTER_NAME, Operation, ResourceType
from penstock.wire.messages.describe_acls import DescribeAclsRequest
from penstock.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from rig.authorised_node import AuthorisedNode, allow, authorised_node
from rig.dialogue import Dialogue
from rig.produced import batch_of

TOPIC = ResourceType.TOPIC
FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[AuthorisedNode]:
    with authorised_node(tmp_path) as node:
        for name in ("orders", "secret"):
            node.admin.topic = name
            node.admin.create_topic()
        yield node


@pytest.fixture
def alice(guarded: AuthorisedNode) -> Iterator[Dialogue]:
    talk = guarded.dialogue("alice")
    yield talk
    talk.close()

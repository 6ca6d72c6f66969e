"""Partitions that a test moves between the nodes of a cluster, in protocol messages."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
)
from penstock.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    OngoingPartitionReassignment,
)
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
)
from rig.dialogue import Dialogue

WAIT_S_MAX = 60


def create_on(
    address: str,
    topic: str,
    assignments: Sequence[Sequence[int]],
    settings: Mapping[str, str] | None = None,
) -> None:
    """A topic each of whose partitions is on the nodes named."""
    wanted = CreatableTopic(
        name=topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(nodes))
            for index, nodes in enumerate(assignments)
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value) for name, value in (settings or {}).items()
        ],
    )
    with closing(Dialogue(address, "")) as dialogue:
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)
        [made] = dialogue.exchange(request, version=7).topics
    assert made.error_code == 0, made


def reassign(
    address: str, topic: str, targets: Mapping[int, Sequence[int] | None]
) -> list[ReassignablePartitionResponse]:
    """New replicas of partitions; None stops a move."""
    partitions = [
        ReassignablePartition(
            partition_index=index, replicas=None if target is None else list(target)
        )
        for index, target in targets.items()
    ]
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=partitions)]
    )
    with closing(Dialogue(address, "")) as dialogue:
        reply = dialogue.exchange(request, version=1)
    assert reply.error_code == 0, reply
    results: list[ReassignablePartitionResponse] = reply.responses[0].partitions
    return results


def begin(address: str, topic: str, *target: int, partition: int = 0) -> None:
    [result] = reassign(address, topic, {partition: target})
    assert result.error_code == 0, result


def ongoing(address: str) -> list[OngoingPartitionReassignment]:
    with closing(Dialogue(address, "")) as dialogue:
        reply = dialogue.exchange(ListPartitionReassignmentsRequest(), version=0)
    assert reply.error_code == 0, reply
    return [one for topic in reply.topics for one in topic.partitions]


def shown(address: str, topic: str, partition: int = 0) -> MetadataResponsePartition:
    """A partition as a node describes it."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    with closing(Dialogue(address, "")) as dialogue:
        [found] = dialogue.exchange(request, version=12).topics
    [one] = [one for one in found.partitions if one.partition_index == partition]
    assert isinstance(one, MetadataResponsePartition)
    return one


def until(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def until_settled(address: str) -> None:
    """No partition moves any more."""
    until("reassignments are complete", lambda: not ongoing(address))

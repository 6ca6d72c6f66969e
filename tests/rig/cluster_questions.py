"""What the tests ask one node of a cluster, Penstock's or Apache Kafka's, in protocol messages."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Protocol

from penstock.model.configs import ResourceKind, Source
from penstock.model.identity import METADATA_TOPIC
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.describe_cluster import DescribeClusterRequest
from penstock.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.wire.messages.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
    QuorumPartition,
)
from penstock.wire.messages.metadata import MetadataRequest
from rig.dialogue import Dialogue
from rig.served_cluster import NodeProcess
from rig.topic_ledger import FoundTopic

PATIENCE_SECONDS = 120.0
PAUSE_SECONDS = 0.02
DESCRIBED_AT_ONCE = 200
SETTING = "retention.ms"  # the one that tests change


class ClusterOfProcesses(Protocol):
    """Nodes that are started and killed one by one; all are brokers and voters."""

    @property
    def nodes(self) -> Mapping[int, NodeProcess]: ...

    @property
    def addresses(self) -> Mapping[int, str]: ...

    @property
    def bootstrap(self) -> str: ...

    def start(self, *numbers: int) -> None: ...


def until(what: str, is_so: Callable[[], bool]) -> None:
    """Waits for it. A node that dies or has no answer yet is asked again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            if is_so():
                return
        except OSError:
            pass
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS:g} s: {what}"
        time.sleep(PAUSE_SECONDS)


def quorum_of(address: str) -> QuorumPartition | None:
    """As the active controller describes it, through this broker; None while there is none."""
    asked = DescribeQuorumTopic(
        topic_name=METADATA_TOPIC, partitions=[DescribeQuorumPartition(partition_index=0)]
    )
    with closing(Dialogue(address, "")) as dialogue:
        reply = dialogue.exchange(DescribeQuorumRequest(topics=[asked]), version=2)
    if reply.error_code:
        return None
    described: QuorumPartition = reply.topics[0].partitions[0]
    return None if described.error_code or described.leader_id < 0 else described


def active_controller(addresses: Iterable[str]) -> int:
    """Asked of each of these in turn, until one knows."""
    found: list[int] = []

    def is_known() -> bool:
        for address in addresses:
            described = quorum_of(address)
            if described is not None:
                found.append(described.leader_id)
                return True
        return False

    until("an active controller", is_known)
    return found[0]


def is_whole(cluster: ClusterOfProcesses) -> bool:
    """Whether every broker is unfenced, as every one of them sees it, and no voter is behind."""
    numbers = set(cluster.nodes)
    for address in cluster.addresses.values():
        if unfenced_brokers(address) != numbers:
            return False
    described = quorum_of(next(iter(cluster.addresses.values())))
    if described is None:
        return False
    ends = {voter.replica_id: voter.log_end_offset for voter in described.current_voters}
    return set(ends) == numbers and all(end >= described.high_watermark for end in ends.values())


def unfenced_brokers(address: str) -> set[int]:
    """As this broker knows them. Metadata lists those that were just fenced, too."""
    with closing(Dialogue(address, "")) as dialogue:
        reply = dialogue.exchange(DescribeClusterRequest(), version=0)
    return {broker.broker_id for broker in reply.brokers}


def create_topic(dialogue: Dialogue, name: str, *, timeout_ms: int) -> tuple[int, bytes]:
    """The error code, and the topic's id if it is 0."""
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=timeout_ms)
    [created] = dialogue.exchange(request, version=7).topics
    return created.error_code, bytes(created.topic_id)


def topics_at(address: str) -> dict[str, FoundTopic]:
    """All topics with their setting, as this node knows them. None is there twice."""
    with closing(Dialogue(address, "")) as dialogue:
        reply = dialogue.exchange(MetadataRequest(topics=None), version=12)
        ids = {topic.name: bytes(topic.topic_id) for topic in reply.topics}
        assert len(ids) == len(reply.topics), "a name is there twice"
        assert len(set(ids.values())) == len(ids), "an id is there twice"
        names = sorted(ids)
        values: dict[str, int] = {}
        for first in range(0, len(names), DESCRIBED_AT_ONCE):
            asked = [
                DescribeConfigsResource(
                    resource_type=ResourceKind.TOPIC,
                    resource_name=name,
                    configuration_keys=[SETTING],
                )
                for name in names[first : first + DESCRIBED_AT_ONCE]
            ]
            answer = dialogue.exchange(DescribeConfigsRequest(resources=asked), version=4)
            for result in answer.results:
                for config in result.configs:
                    if config.config_source == Source.TOPIC:
                        values[result.resource_name] = int(config.value)
    return {name: FoundTopic(topic_id=ids[name], value=values.get(name)) for name in names}

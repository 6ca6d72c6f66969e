"""The metadata quorum as its leader describes it."""

from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.model.error import ErrorCode
from penstock.model.identity import METADATA_TOPIC, NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset
from penstock.wire.messages.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
    QuorumReplica,
)

NO_DIRECTORY_ID = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumMember:
    """One replica of the metadata log; None stands for what the leader does not know."""

    node_id: NodeId
    directory_id: bytes | None
    end_offset: Offset | None
    lag: int | None
    fetched_ms: int | None  # since 1970, by the leader's clock
    caught_up_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    leader_id: NodeId
    epoch: LeaderEpoch
    high_watermark: Offset
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...]


async def describe_quorum(cluster: Cluster) -> Quorum:
    """Refused when the quorum has no leader just now."""
    request = DescribeQuorumRequest(
        topics=[
            DescribeQuorumTopic(
                topic_name=METADATA_TOPIC, partitions=[DescribeQuorumPartition(partition_index=0)]
            )
        ]
    )
    reply = await cluster.ask_controller(request, DescribeQuorumResponse)
    if reply.error_code != ErrorCode.NONE:
        raise Refused(ErrorCode(reply.error_code), METADATA_TOPIC, reply.error_message)
    [topic] = reply.topics
    [partition] = topic.partitions
    if partition.error_code != ErrorCode.NONE:
        raise Refused(ErrorCode(partition.error_code), METADATA_TOPIC, partition.error_message)
    leader_end = max((one.log_end_offset for one in partition.current_voters), default=0)
    return Quorum(
        leader_id=NodeId(partition.leader_id),
        epoch=LeaderEpoch(partition.leader_epoch),
        high_watermark=Offset(partition.high_watermark),
        voters=tuple(_member(one, leader_end) for one in partition.current_voters),
        observers=tuple(_member(one, leader_end) for one in partition.observers),
    )


def _member(replica: QuorumReplica, leader_end: int) -> QuorumMember:
    directory_id = replica.replica_directory_id
    end_offset = _known(replica.log_end_offset)
    return QuorumMember(
        node_id=NodeId(replica.replica_id),
        directory_id=None if directory_id == NO_DIRECTORY_ID else directory_id,
        end_offset=None if end_offset is None else Offset(end_offset),
        lag=None if end_offset is None else max(0, leader_end - end_offset),
        fetched_ms=_known(replica.last_fetch_timestamp),
        caught_up_ms=_known(replica.last_caught_up_timestamp),
    )


def _known(number: int) -> int | None:
    return None if number < 0 else number

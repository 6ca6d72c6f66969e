"""The metadata quorum as its leader describes it."""

import asyncio

from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused, error_code
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
ATTEMPTS = 10  # an election is over by then, if a majority lives
# The leader of the quorum has changed, or is being elected.
MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)


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
class Controller:
    """Where a voter is reached by other nodes."""

    node_id: NodeId
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    leader_id: NodeId
    epoch: LeaderEpoch
    high_watermark: Offset
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...]
    controllers: tuple[Controller, ...]  # as far as the leader tells: since 3.9


async def describe_quorum(cluster: Cluster, *, at_controllers: bool = False) -> Quorum:
    """`at_controllers` when the cluster's addresses are those of controllers. Refused when the
    quorum has no leader, also after some attempts.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return await _described(cluster, at_controllers=at_controllers)
        except Refused as error:
            if error.code not in MOVED:
                raise
        await asyncio.sleep(cluster.rules.backoff_ms / 1000)
    return await _described(cluster, at_controllers=at_controllers)


async def _described(cluster: Cluster, *, at_controllers: bool) -> Quorum:
    request = DescribeQuorumRequest(
        topics=[
            DescribeQuorumTopic(
                topic_name=METADATA_TOPIC, partitions=[DescribeQuorumPartition(partition_index=0)]
            )
        ]
    )
    if at_controllers:  # only the active one knows
        await cluster.refresh_controllers()
        reply = await cluster.ask_controller(request, DescribeQuorumResponse)
    else:  # any broker asks the active controller
        reply = await cluster.ask_any(request, DescribeQuorumResponse)
    _refuse(reply.error_code, reply.error_message)
    [topic] = reply.topics
    [partition] = topic.partitions
    _refuse(partition.error_code, partition.error_message)
    leader_end = max((one.log_end_offset for one in partition.current_voters), default=0)
    return Quorum(
        leader_id=NodeId(partition.leader_id),
        epoch=LeaderEpoch(partition.leader_epoch),
        high_watermark=Offset(partition.high_watermark),
        voters=tuple(_member(one, leader_end) for one in partition.current_voters),
        observers=tuple(_member(one, leader_end) for one in partition.observers),
        controllers=tuple(
            Controller(node_id=NodeId(node.node_id), host=first.host, port=first.port)
            for node in reply.nodes
            for first in node.listeners[:1]
        ),
    )


def _refuse(code: int, message: str | None) -> None:
    found = error_code(code)
    if found in MOVED:
        raise Refused(found, METADATA_TOPIC, "the quorum has no leader at present")
    if found != ErrorCode.NONE:
        raise Refused(found, METADATA_TOPIC, message)


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

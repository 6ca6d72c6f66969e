"""Followers that ask for an offset which their leader does not have: where they restart.

The leader is asked where its logs begin and end (`leader_offsets`), and each follower restarts
there (`restart`); the rule is `Follower.restart_at`.
"""

import logging
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.model.offset import LeaderEpoch, Offset
from penstock.replication.follower import Follower
from penstock.replication.replica_session import PartitionId
from penstock.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from penstock.client.network.view_channel import ViewChannel

logger = logging.getLogger(__name__)

EARLIEST = -2
LATEST = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderOffsets:
    """The leader's log is [start, end)."""

    start: Offset
    end: Offset


class Restart(Enum):
    """What became of a follower that was out of range."""

    DONE = "done"  # fetch again
    CUTTING = "cutting"  # a long truncation is being prepared: `Follower.cut_further`
    IN_RANGE = "in_range"  # the leader refuses what it says that it has


async def leader_offsets(
    channel: "ViewChannel",
    followers: Mapping[PartitionId, Follower],
    *,
    node_id: NodeId,
    timeout_ms: int,
) -> dict[PartitionId, LeaderOffsets]:
    """Of those partitions of which the leader tells it. ClientError when the connection is lost."""
    starts = await _list_offsets(channel, followers, EARLIEST, node_id, timeout_ms)
    ends = await _list_offsets(channel, followers, LATEST, node_id, timeout_ms)
    return {
        partition: LeaderOffsets(start=start, end=ends[partition])
        for partition, start in starts.items()
        if partition in ends
    }


def restart(
    follower: Follower, leader: NodeId, leader_epoch: LeaderEpoch, offsets: LeaderOffsets
) -> Restart:
    """By what the leader told in this leader epoch. Raises CorruptData and DiskError."""
    end_before = follower.log.end_offset
    is_restarted = follower.restart_at(
        leader_epoch=leader_epoch,
        leader_start=offsets.start,
        leader_end=offsets.end,
        in_steps=True,
    )
    if follower.is_cutting:
        return Restart.CUTTING
    if is_restarted and follower.log.end_offset == end_before:
        return Restart.IN_RANGE
    if is_restarted:
        logger.warning(
            "replica partition=%s leader=%d out_of_range_offset=%d leader_start=%d "
            "leader_end=%d restarted_at=%d",
            follower.name, leader, end_before, offsets.start, offsets.end,
            follower.log.end_offset,
        )  # fmt: skip
    return Restart.DONE


async def _list_offsets(
    channel: "ViewChannel",
    followers: Mapping[PartitionId, Follower],
    timestamp: int,
    node_id: NodeId,
    timeout_ms: int,
) -> dict[PartitionId, Offset]:
    topics: dict[str, ListOffsetsTopic] = {}
    ids: dict[tuple[str, int], PartitionId] = {}
    for partition, follower in followers.items():
        name, index = follower.name.topic, follower.name.partition
        topic = topics.setdefault(name, ListOffsetsTopic(name=name))
        topic.partitions.append(
            ListOffsetsPartition(
                partition_index=index,
                current_leader_epoch=follower.leader_epoch,
                timestamp=timestamp,
            )
        )
        ids[name, index] = partition
    response = await channel.ask(
        ListOffsetsRequest(replica_id=node_id, topics=list(topics.values())),
        ListOffsetsResponse,
        timeout_ms=timeout_ms,
    )
    return {
        ids[topic.name, found.partition_index]: Offset(found.offset)
        for topic in response.topics
        for found in topic.partitions
        if found.error_code == ErrorCode.NONE
        and found.offset >= 0
        and (topic.name, found.partition_index) in ids
    }

"""What consumers and followers are told of a partition that they cannot read, and whom to ask."""

from typing import Final

from penstock.broker.request.leader_hints import LeaderHint, leader_hint
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId
from penstock.model.offset import NO_OFFSET, LeaderEpoch
from penstock.replication.leader import find_divergence
from penstock.replication.replica import Replica
from penstock.wire.messages.fetch import (
    EpochEndOffset,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

CURRENT_LEADER_FROM: Final = 16
WRONG_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
EMPTY: Final = b""


def failed(index: int, code: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=NO_OFFSET,
        aborted_transactions=None,
        records=EMPTY,
    )


def redirected(replica: Replica, index: int, *, to: NodeId) -> PartitionData:
    """A consumer is to read from another replica: nothing is read here (KIP-392)."""
    return PartitionData(
        partition_index=index,
        high_watermark=replica.high_watermark,
        last_stable_offset=replica.last_stable_offset,
        log_start_offset=replica.log.start_offset,
        aborted_transactions=None,
        preferred_read_replica=to,
        records=EMPTY,
    )


def diverged(
    partition: Replica, index: int, *, last_fetched_epoch: int, fetch_offset: int
) -> PartitionData | None:
    """Where the log of a fetcher ceases to agree with this one; None when it agrees."""
    log = partition.log
    if fetch_offset < log.start_offset:
        return failed(index, ErrorCode.OFFSET_OUT_OF_RANGE)
    if last_fetched_epoch == log.epochs.latest and fetch_offset <= log.end_offset:
        return None  # the latest epoch ends where the log does
    found = find_divergence(
        log.end_of_epoch(LeaderEpoch(last_fetched_epoch)),
        last_fetched_epoch=last_fetched_epoch,
        fetch_offset=fetch_offset,
    )
    if isinstance(found, ErrorCode):
        return None if found == ErrorCode.NONE else failed(index, found)
    return PartitionData(
        partition_index=index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.start_offset,
        diverging_epoch=EpochEndOffset(epoch=found.leader_epoch, end_offset=found.end_offset),
        aborted_transactions=None,
        records=EMPTY,
    )


def name_leaders(
    services: Services, response: FetchResponse, *, version: int, listener: str
) -> None:
    """Who asked the wrong broker is told the right one along with the error (KIP-951)."""
    if version < CURRENT_LEADER_FROM:
        return
    hints: dict[int, LeaderHint] = {}
    for topic in response.responses:
        for answer in topic.partitions:
            if answer.error_code not in WRONG_LEADER:
                continue
            # A topic of which nothing was ever led here is known by its id alone.
            name = topic.topic or services.partitions.topic_name(TopicId(topic.topic_id))
            hint = leader_hint(services.image, name, answer.partition_index, listener=listener)
            if hint is not None:
                hints[hint.node_id] = hint
                answer.current_leader = LeaderIdAndEpoch(
                    leader_id=hint.node_id, leader_epoch=hint.leader_epoch
                )
    response.node_endpoints = [
        NodeEndpoint(node_id=hint.node_id, host=hint.host, port=hint.port, rack=hint.rack)
        for hint in hints.values()
    ]

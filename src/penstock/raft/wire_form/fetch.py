"""Fetch of the metadata log by a replica, in versions from 17 on: by topic id, with directory ids.

Records are a view of the reply's bytes on the way in. On the way out they are whatever the reply
holds: bytes, or a splice of a file.
"""

from collections.abc import Iterator

from penstock.model.error import ErrorCode
from penstock.model.identity import METADATA_TOPIC_ID, NodeId
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.raft.log_ends import LogEnd
from penstock.raft.messages import FetchReply, FetchRequest, Run
from penstock.raft.voters import ReplicaKey
from penstock.raft.wire_form.envelope import (
    NO_DIRECTORY_ID,
    PARTITION,
    MeantForOthers,
    UnusableReply,
    check_cluster,
    checked_epoch,
    code,
    directory_or_zero,
    id_or_none,
    node_or_none,
    refuse_error,
    refused,
)
from penstock.raft.wire_form.voters import voters_in
from penstock.records.batch import BatchView, whole_batches
from penstock.records.errors import CorruptBatch
from penstock.wire.codec import Buffer, Records
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages import fetch as wire

VERSION_MIN = 17
WATERMARK_UNSAID = 2**63 - 1


def request_to_wire(request: FetchRequest, *, cluster_id: str, bytes_max: int) -> wire.FetchRequest:
    partition = wire.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.log_end.offset,
        last_fetched_epoch=request.log_end.epoch,
        log_start_offset=0,
        partition_max_bytes=bytes_max,
        replica_directory_id=directory_or_zero(request.replica),
        high_watermark=(
            WATERMARK_UNSAID if request.high_watermark is None else request.high_watermark
        ),
    )
    topic = wire.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])
    return wire.FetchRequest(
        cluster_id=cluster_id,
        replica_state=wire.ReplicaState(replica_id=request.replica.node_id),
        max_wait_ms=request.wait_ms_max,
        min_bytes=0,
        max_bytes=bytes_max,
        topics=[topic],
    )


def request_from_wire(message: wire.FetchRequest, *, cluster_id: str) -> FetchRequest:
    check_cluster(message.cluster_id, own=cluster_id)
    asked = _only(message)
    replica = message.replica_state
    known = asked.replica_directory_id
    if asked.fetch_offset < 0 or asked.last_fetched_epoch > asked.current_leader_epoch:
        raise MeantForOthers(
            ErrorCode.INVALID_REQUEST,
            f"a log that ends at {asked.fetch_offset} in epoch {asked.last_fetched_epoch} cannot "
            f"be fetched to in epoch {asked.current_leader_epoch}",
        )
    return FetchRequest(
        epoch=checked_epoch(asked.current_leader_epoch),
        replica=ReplicaKey(
            NodeId(-1 if replica is None else replica.replica_id),
            None if known == NO_DIRECTORY_ID else known,
        ),
        log_end=LogEnd(LeaderEpoch(asked.last_fetched_epoch), Offset(asked.fetch_offset)),
        high_watermark=(
            None if asked.high_watermark == WATERMARK_UNSAID else Offset(asked.high_watermark)
        ),
        wait_ms_max=message.max_wait_ms,
    )


def reply_to_wire(
    reply: FetchReply, *, records: Records, log_start_offset: Offset
) -> wire.FetchResponse:
    leader = wire.LeaderIdAndEpoch(leader_id=id_or_none(reply.leader_id), leader_epoch=reply.epoch)
    data = wire.PartitionData(
        partition_index=PARTITION,
        error_code=code(reply.error),
        high_watermark=reply.high_watermark,
        log_start_offset=log_start_offset,
        current_leader=leader,
        records=records,
    )
    if reply.diverging is not None:
        data.diverging_epoch = wire.EpochEndOffset(
            epoch=reply.diverging.epoch, end_offset=reply.diverging.offset
        )
    if reply.snapshot is not None:
        data.snapshot_id = wire.SnapshotId(
            end_offset=reply.snapshot.offset, epoch=reply.snapshot.epoch
        )
    topic = wire.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[data])
    return wire.FetchResponse(responses=[topic])


def reply_from_wire(message: wire.FetchResponse) -> FetchReply:
    """UnusableReply when it says nothing about the metadata log, or is damaged."""
    data = _only_of_reply(message)
    leader = data.current_leader or wire.LeaderIdAndEpoch()
    error = refused(data.error_code)
    reply = FetchReply(
        epoch=LeaderEpoch(leader.leader_epoch),
        leader_id=node_or_none(leader.leader_id),
        high_watermark=Offset(max(0, data.high_watermark)),
        error=error,
    )
    if error is not None:
        return reply
    diverging, snapshot = data.diverging_epoch, data.snapshot_id
    if snapshot is not None and snapshot.end_offset >= 0:
        reply.snapshot = SnapshotId(Offset(snapshot.end_offset), LeaderEpoch(snapshot.epoch))
    elif diverging is not None and diverging.epoch >= 0:
        reply.diverging = LogEnd(LeaderEpoch(diverging.epoch), Offset(diverging.end_offset))
    elif data.records is not None:
        assert isinstance(data.records, bytes | bytearray | memoryview), "received into memory"
        reply.records = data.records
        reply.runs = tuple(runs_of(data.records))
        try:
            batches = whole_batches(memoryview(data.records))
            reply.voter_sets = tuple(voters_in(batches))
        except (MalformedMessage, CorruptBatch) as error:
            raise UnusableReply(f"a record of the voters is unreadable: {error}") from error
    return reply


def runs_of(records: Buffer) -> Iterator[Run]:
    """The epochs of fetched batches. UnusableReply unless each batch is whole and undamaged, and
    follows the one before it.
    """
    try:
        batches = [_checked(batch) for batch in whole_batches(memoryview(records))]
    except CorruptBatch as error:
        raise UnusableReply(f"the records are damaged: {error}") from error
    for at, batch in enumerate(batches):
        if at > 0 and batch.base_offset != batches[at - 1].next_offset:
            raise UnusableReply(f"the records have a gap before offset {batch.base_offset}")
        last = at + 1 == len(batches) or batches[at + 1].leader_epoch != batch.leader_epoch
        if last:
            yield Run(epoch=batch.leader_epoch, end_offset=batch.next_offset)


def _checked(batch: BatchView) -> BatchView:
    if not batch.checksum_matches():
        raise CorruptBatch(f"the batch at offset {batch.base_offset} does not match its checksum")
    return batch


def _only(message: wire.FetchRequest) -> wire.FetchPartition:
    if len(message.topics) == 1:
        [topic] = message.topics
        if topic.topic_id == METADATA_TOPIC_ID and len(topic.partitions) == 1:
            return topic.partitions[0]
    raise MeantForOthers(ErrorCode.INVALID_REQUEST, "the fetch is not about the metadata log")


def _only_of_reply(message: wire.FetchResponse) -> wire.PartitionData:
    refuse_error(message.error_code)
    if len(message.responses) == 1:
        [topic] = message.responses
        if topic.topic_id == METADATA_TOPIC_ID and len(topic.partitions) == 1:
            return topic.partitions[0]
    raise UnusableReply("the reply is not about the metadata log")

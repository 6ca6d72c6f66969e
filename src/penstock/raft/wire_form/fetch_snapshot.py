"""FetchSnapshot, in version 1: parts of a snapshot by position, with directory ids."""

from penstock.model.error import ErrorCode
from penstock.model.identity import METADATA_TOPIC, NodeId
from penstock.model.offset import LeaderEpoch, Offset, SnapshotId
from penstock.raft.messages import FetchSnapshotReply, FetchSnapshotRequest
from penstock.raft.voters import ReplicaKey
from penstock.raft.wire_form.envelope import (
    NO_DIRECTORY_ID,
    PARTITION,
    MeantForOthers,
    check_cluster,
    checked_epoch,
    code,
    directory_or_zero,
    id_or_none,
    node_or_none,
    only,
    only_of_reply,
    refused,
)
from penstock.wire.codec import Records
from penstock.wire.messages import fetch_snapshot as wire


def request_to_wire(
    request: FetchSnapshotRequest, *, cluster_id: str, bytes_max: int
) -> wire.FetchSnapshotRequest:
    partition = wire.FetchSnapshotPartition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=_to_wire(request.snapshot),
        position=request.position,
        replica_directory_id=directory_or_zero(request.replica),
    )
    return wire.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=request.replica.node_id,
        max_bytes=bytes_max,
        topics=[wire.FetchSnapshotTopic(name=METADATA_TOPIC, partitions=[partition])],
    )


def request_from_wire(
    message: wire.FetchSnapshotRequest, *, cluster_id: str
) -> FetchSnapshotRequest:
    check_cluster(message.cluster_id, own=cluster_id)
    asked = only([(topic.name, topic.partitions) for topic in message.topics])
    if asked.position < 0:
        raise MeantForOthers(
            ErrorCode.INVALID_REQUEST, f"the position {asked.position} is negative"
        )
    known = asked.replica_directory_id
    return FetchSnapshotRequest(
        epoch=checked_epoch(asked.current_leader_epoch),
        replica=ReplicaKey(NodeId(message.replica_id), None if known == NO_DIRECTORY_ID else known),
        snapshot=_from_wire(asked.snapshot_id),
        position=asked.position,
    )


def reply_to_wire(reply: FetchSnapshotReply, *, data: Records) -> wire.FetchSnapshotResponse:
    part = wire.SnapshotPart(
        index=PARTITION,
        error_code=code(reply.error),
        snapshot_id=_to_wire(reply.snapshot),
        current_leader=wire.SnapshotLeader(
            leader_id=id_or_none(reply.leader_id), leader_epoch=reply.epoch
        ),
        size=reply.size,
        position=reply.position,
        unaligned_records=data,
    )
    return wire.FetchSnapshotResponse(
        topics=[wire.SnapshotTopic(name=METADATA_TOPIC, partitions=[part])]
    )


def reply_from_wire(message: wire.FetchSnapshotResponse) -> FetchSnapshotReply:
    part = only_of_reply(
        message.error_code, [(topic.name, topic.partitions) for topic in message.topics]
    )
    leader = part.current_leader or wire.SnapshotLeader(leader_id=-1, leader_epoch=-1)
    data = part.unaligned_records
    assert isinstance(data, bytes | bytearray | memoryview), "what was received is in memory"
    return FetchSnapshotReply(
        epoch=LeaderEpoch(leader.leader_epoch),
        leader_id=node_or_none(leader.leader_id),
        snapshot=_from_wire(part.snapshot_id),
        size=part.size,
        position=part.position,
        length=len(data),
        data=data,
        error=refused(part.error_code),
    )


def _to_wire(snapshot: SnapshotId) -> wire.SnapshotId:
    return wire.SnapshotId(end_offset=snapshot.offset, epoch=snapshot.epoch)


def _from_wire(snapshot: wire.SnapshotId) -> SnapshotId:
    return SnapshotId(Offset(snapshot.end_offset), LeaderEpoch(snapshot.epoch))

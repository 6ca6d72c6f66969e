"""FetchSnapshot: a part of a snapshot of the metadata log, by byte position (KIP-630).

The bytes are those of the snapshot's file; a part may begin and end inside a record batch.
Version 1 names the fetching replica by directory id as well, and says where the leader listens
(KIP-853).
"""

from penstock.wire.api import ApiKey
from penstock.wire.codec import Records
from penstock.wire.definition import (
    Message,
    Struct,
    array,
    embedded,
    int16,
    int32,
    int64,
    nullable,
    records,
    string,
    tagged,
    tagged_struct,
    uuid,
)
from penstock.wire.messages.endpoints import NodeEndpoint


class SnapshotId(Struct):
    end_offset: int = int64()
    epoch: int = int32()


class FetchSnapshotPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32()  # -1 where it is not known
    snapshot_id: SnapshotId = embedded(SnapshotId)
    position: int = int64()
    replica_directory_id: bytes = tagged(0, uuid("1+"))


class FetchSnapshotTopic(Struct):
    name: str = string()
    partitions: list[FetchSnapshotPartition] = array(FetchSnapshotPartition)


class FetchSnapshotRequest(Message, key=ApiKey.FETCH_SNAPSHOT, versions="0-1", flexible_from=0):
    cluster_id: str | None = tagged(0, nullable(string(), default=None))
    replica_id: int = int32(default=-1)
    max_bytes: int = int32(default=2**31 - 1)
    topics: list[FetchSnapshotTopic] = array(FetchSnapshotTopic)


class SnapshotLeader(Struct):
    leader_id: int = int32()  # -1 where the leader is not known
    leader_epoch: int = int32()


class SnapshotPart(Struct):
    index: int = int32()
    error_code: int = int16()
    snapshot_id: SnapshotId = embedded(SnapshotId)
    current_leader: SnapshotLeader | None = tagged_struct(0, SnapshotLeader, "0+")
    size: int = int64()  # of the whole snapshot
    position: int = int64()
    unaligned_records: Records = records(is_nullable=False)


class SnapshotTopic(Struct):
    name: str = string()
    partitions: list[SnapshotPart] = array(SnapshotPart)


class FetchSnapshotResponse(Message, key=ApiKey.FETCH_SNAPSHOT, versions="0-1", flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[SnapshotTopic] = array(SnapshotTopic)
    node_endpoints: list[NodeEndpoint] = tagged(0, array(NodeEndpoint, "1+"))

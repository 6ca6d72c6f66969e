"""AssignReplicasToDirs: a broker tells in which of its log directories replicas are (KIP-858)."""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, Struct, array, int16, int32, int64, uuid


class ReplicaOfDirectory(Struct):
    partition_index: int = int32()


class TopicOfDirectory(Struct):
    topic_id: bytes = uuid()
    partitions: list[ReplicaOfDirectory] = array(ReplicaOfDirectory)


class DirectoryData(Struct):
    id: bytes = uuid()
    topics: list[TopicOfDirectory] = array(TopicOfDirectory)


class AssignReplicasToDirsRequest(
    Message, key=ApiKey.ASSIGN_REPLICAS_TO_DIRS, versions="0", flexible_from=0
):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    directories: list[DirectoryData] = array(DirectoryData)


class AssignedReplica(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class AssignedTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[AssignedReplica] = array(AssignedReplica)


class AssignedDirectory(Struct):
    id: bytes = uuid()
    topics: list[AssignedTopic] = array(AssignedTopic)


class AssignReplicasToDirsResponse(
    Message, key=ApiKey.ASSIGN_REPLICAS_TO_DIRS, versions="0", flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    directories: list[AssignedDirectory] = array(AssignedDirectory)

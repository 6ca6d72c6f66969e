"""An offset that a group committed for a partition."""

from penstock.wire.definition import Message, int32, int64, string, tagged, uuid


class OffsetCommitKey(Message, key=1, versions="0"):
    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message, key=1, versions="0-4", flexible_from=4):
    offset: int = int64()
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64("1", default=-1)
    topic_id: bytes = tagged(0, uuid("4+"))

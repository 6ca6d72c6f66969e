"""A partition as it is created, and what changes in it afterwards.

In a change a tagged field that is absent means that nothing about it changed.
"""

from penstock.wire.definition import Message, array, int8, int32, nullable, string, tagged, uuid


class PartitionRecord(Message, key=3, versions="0-2", flexible_from=0):
    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    replicas: list[int] = array(int32())
    isr: list[int] = array(int32())
    removing_replicas: list[int] = array(int32())
    adding_replicas: list[int] = array(int32())
    leader: int = int32(default=-1)
    leader_recovery_state: int = tagged(0, int8())
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: list[bytes] = array(uuid(), "1+")
    eligible_leader_replicas: list[int] | None = tagged(
        1, nullable(array(int32(), "2+"), default=None)
    )
    last_known_elr: list[int] | None = tagged(2, nullable(array(int32(), "2+"), default=None))


class PartitionChangeRecord(Message, key=5, versions="0-2", flexible_from=0):
    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    isr: list[int] | None = tagged(0, nullable(array(int32()), default=None))
    leader: int = tagged(1, int32(default=-2))
    replicas: list[int] | None = tagged(2, nullable(array(int32()), default=None))
    removing_replicas: list[int] | None = tagged(3, nullable(array(int32()), default=None))
    adding_replicas: list[int] | None = tagged(4, nullable(array(int32()), default=None))
    leader_recovery_state: int = tagged(5, int8(default=-1))
    directories: list[bytes] | None = tagged(8, nullable(array(uuid(), "1+"), default=None))
    eligible_leader_replicas: list[int] | None = tagged(
        6, nullable(array(int32(), "2+"), default=None)
    )
    last_known_elr: list[int] | None = tagged(7, nullable(array(int32(), "2+"), default=None))


class ClearElrRecord(Message, key=28, versions="0", flexible_from=0):
    """The eligible leader replicas of a topic's partitions, or of all topics, are forgotten."""

    topic_name: str = string()  # empty: all topics

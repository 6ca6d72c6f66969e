"""Which brokers hold a new partition, and which of them leads it.

Leaders rotate over the usable brokers, the followers of a partition are the brokers after its
leader, and each topic begins with another broker, so that topics with one partition are spread as
well.
"""

from collections.abc import Sequence

from penstock.metadata.controller.decision_context import Refusal
from penstock.metadata.controller.state import ControllerState
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId
from penstock.wire.messages.metadata_records.partition import PartitionRecord

UNASSIGNED_DIRECTORY = bytes(15) + b"\x01"  # the broker chooses

Replicas = tuple[NodeId, ...]


def place(
    state: ControllerState,
    *,
    topic_id: TopicId,
    from_partition: int,
    count: int,
    replication_factor: int,
) -> tuple[Replicas, ...] | Refusal:
    """Replicas for `count` partitions, the first of which has the number `from_partition`."""
    assert count > 0 and replication_factor > 0, (count, replication_factor)
    usable = sorted(node for node, broker in state.brokers.items() if not broker.fenced)
    fenced = sorted(node for node, broker in state.brokers.items() if broker.fenced)
    unable = f"Unable to replicate the partition {replication_factor} time(s): "
    if not usable:
        return _refuse(unable + "All brokers are currently fenced.")
    if replication_factor > len(usable) + len(fenced):
        return _refuse(
            f"{unable}The target replication factor of {replication_factor} cannot be reached "
            f"because only {len(state.brokers)} broker(s) are registered."
        )
    first = int.from_bytes(topic_id) + from_partition
    return tuple(
        _replicas(usable, fenced, at=first + index, count=replication_factor)
        for index in range(count)
    )


def manual_error(
    state: ControllerState, replicas: Sequence[int], *, replication_factor: int | None
) -> str | None:
    """Why replicas that a request names cannot be used, or None."""
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    seen: set[int] = set()
    for node in replicas:
        if node not in state.brokers:
            return (
                f"The manual partition assignment includes broker {node}, "
                "but no such broker is registered."
            )
        if node in seen:
            return f"The manual partition assignment includes the broker {node} more than once."
        seen.add(node)
    if replication_factor is not None and len(replicas) != replication_factor:
        return (
            f"The manual partition assignment includes a partition with {len(replicas)} "
            "replica(s), but this is not consistent with previous partitions, "
            f"which have {replication_factor} replica(s)."
        )
    return None


def new_partition(
    state: ControllerState, *, topic_id: TopicId, partition: int, replicas: Sequence[int]
) -> PartitionRecord | None:
    """The record of a new partition on these replicas; None when all of them are fenced."""
    isr = [node for node in replicas if not state.brokers[NodeId(node)].fenced]
    if not isr:
        return None
    return PartitionRecord(
        partition_id=partition,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=[_directory(state, NodeId(node)) for node in replicas],
    )


def _replicas(
    usable: Sequence[NodeId], fenced: Sequence[NodeId], *, at: int, count: int
) -> Replicas:
    """Usable brokers first, so that the leader is one; fenced ones only when they are needed."""
    around = at % len(usable)
    return (*usable[around:], *usable[:around], *fenced)[:count]


def _directory(state: ControllerState, node: NodeId) -> bytes:
    directories = state.brokers[node].directories
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY


def _refuse(message: str) -> Refusal:
    return Refusal(code=ErrorCode.INVALID_REPLICATION_FACTOR, message=message)

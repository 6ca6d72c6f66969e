"""Which brokers hold a new partition, and which of them leads it.

The usable brokers stand in a ring, in turns over the racks. The leaders of successive partitions
follow the ring, so each broker leads as many as any other, give or take one, and each topic begins
at another place, so that topics with one partition are spread as well. The followers of a partition
are the brokers after its leader, each round of the ring another distance away: when a broker fails,
all others share what it led.

No two replicas of a partition are in one rack while another rack has a broker without one: racks
come first, as in Apache Kafka. So a fenced broker is chosen when its rack has no usable one, or
when there are too few brokers; it never leads.
"""

from collections.abc import Sequence
from itertools import chain, zip_longest

from penstock.metadata.controller.decision_context import Refusal
from penstock.metadata.controller.state import ControllerState
from penstock.metadata.image.topic import UNASSIGNED_DIRECTORY
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId
from penstock.wire.messages.metadata_records.partition import PartitionRecord

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
    usable, fenced = _ring(state, usable=True), _ring(state, usable=False)
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
        _replicas(state, usable, fenced, at=first + index, count=replication_factor)
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
    """The record of a new partition on these replicas; None when none of them is usable."""
    isr = [node for node in replicas if state.brokers[NodeId(node)].is_usable]
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
        directories=[directory_on(state, NodeId(node)) for node in replicas],
    )


def directory_on(state: ControllerState, node: NodeId) -> bytes:
    """The log directory of a new replica, as far as it is known before the broker has chosen."""
    directories = state.brokers[node].directories
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY


def _ring(state: ControllerState, *, usable: bool) -> list[NodeId]:
    """The brokers that are usable, or those that are not: one of each rack, then the next ones."""
    racks = [
        sorted(node for node in state.racks[rack] if state.brokers[node].is_usable == usable)
        for rack in sorted(state.racks, key=lambda rack: (rack is not None, rack or ""))
    ]
    in_turns = chain.from_iterable(zip_longest(*racks))
    return [node for node in in_turns if node is not None]


def _replicas(
    state: ControllerState,
    usable: Sequence[NodeId],
    fenced: Sequence[NodeId],
    *,
    at: int,
    count: int,
) -> Replicas:
    """The replicas of the partition with the number `at`, counted over all topics."""
    rounds, position = divmod(at, len(usable))
    leader = usable[position]
    others = _rotated((*usable[position + 1 :], *usable[:position]), rounds)
    left = [*others, *_rotated(fenced, at)]
    chosen = [leader]
    racks = {state.brokers[leader].rack}  # that have a replica more than the other racks
    while len(chosen) < count:
        for node in left:
            if state.brokers[node].rack not in racks:
                break
        else:  # every rack that still has a broker has a replica more: they are equal again
            racks.clear()
            node = left[0]
        left.remove(node)
        chosen.append(node)
        racks.add(state.brokers[node].rack)
    return tuple(chosen)


def _rotated(nodes: Sequence[NodeId], by: int) -> Sequence[NodeId]:
    around = by % len(nodes) if nodes else 0
    return (*nodes[around:], *nodes[:around])


def _refuse(message: str) -> Refusal:
    return Refusal(code=ErrorCode.INVALID_REPLICATION_FACTOR, message=message)

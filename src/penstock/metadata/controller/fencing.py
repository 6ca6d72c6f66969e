"""What becomes of partitions when a broker goes or comes: in-sync sets shrink, leaders change.

A broker that is fenced leaves the in-sync sets and leads nothing; another replica takes over, in a
new leader epoch, or the partition has no leader until one comes back (`partition_change`). If one
of its log directories fails, the same happens to what was in it, and the broker stays.
"""

from collections.abc import Container, Iterator

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.partition_change import (
    BrokerChange,
    can_lead,
    change_partition,
)
from penstock.metadata.controller.state import ControllerState, Place
from penstock.metadata.image.changes import FENCED
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.messages.metadata_records.broker import BrokerRegistrationChangeRecord
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBroker:
    """The controller itself asks: the broker's session has ended, or its process is dead."""

    node_id: NodeId
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFenced:
    pass


def fence_broker(
    context: DecisionContext, request: FenceBroker
) -> Decision[MetadataRecord, BrokerFenced]:
    broker = context.state.brokers.get(request.node_id)
    if broker is None or broker.epoch != request.broker_epoch:
        # A later process has registered, or the broker was unregistered: neither is to be fenced.
        raise RequestError(ErrorCode.STALE_BROKER_EPOCH)
    records: list[MetadataRecord] = list(without_broker(context, request.node_id))
    if not broker.fenced:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=request.node_id, broker_epoch=broker.epoch, fenced=FENCED
            )
        )
    return Decision(records=tuple(records), reply=BrokerFenced(), framed=True)


def without_broker(
    context: DecisionContext, node_id: NodeId, *, has_lost_records: bool = False
) -> Iterator[PartitionChangeRecord]:
    """The changes to partitions when a broker is fenced, leaves, or has come back with less than it
    had.
    """
    state = context.state
    brokers = BrokerChange(leaving=node_id, has_lost_records=has_lost_records)
    for place in sorted(state.replicated_by(node_id)):
        partition = state.partition(place)
        if node_id in partition.isr or (has_lost_records and node_id in partition.elr):
            others = [replica for replica in partition.isr if replica != node_id]
            change = change_partition(context, place, isr=others, brokers=brokers)
            if change is not None:
                yield change


def without_directories(
    context: DecisionContext, node_id: NodeId, directories: Container[bytes]
) -> Iterator[PartitionChangeRecord]:
    """The changes to partitions when log directories of a broker have failed."""
    state = context.state
    for place in sorted(state.replicated_by(node_id)):
        if state.partition(place).directory(node_id) in directories:
            change = without_replica(context, node_id, place)
            if change is not None:
                yield change


def without_replica(
    context: DecisionContext, node_id: NodeId, place: Place
) -> PartitionChangeRecord | None:
    """The change to a partition whose replica on a living broker has failed, if any."""
    partition = context.state.partition(place)
    if node_id not in partition.isr and node_id not in partition.elr:
        return None
    others = [replica for replica in partition.isr if replica != node_id]
    brokers = BrokerChange(leaving=node_id, has_lost_records=True)
    return change_partition(context, place, isr=others, brokers=brokers)


def handed_over(context: DecisionContext, node_id: NodeId) -> Iterator[PartitionChangeRecord]:
    """The changes to partitions when a broker is about to shut down: it leaves the in-sync sets,
    and others lead what they can. It goes on to lead what nobody else can.
    """
    state = context.state
    brokers = BrokerChange(leaving=node_id)
    for place in sorted(state.replicated_by(node_id)):
        partition = state.partition(place)
        if node_id not in partition.isr:
            continue
        others = [replica for replica in partition.isr if replica != node_id]
        if partition.leader == node_id and not any(
            can_lead(state, partition, replica, brokers) for replica in others
        ):
            continue
        change = change_partition(context, place, isr=others, brokers=brokers)
        if change is not None:
            yield change


def led_again(context: DecisionContext, node_id: NodeId) -> Iterator[PartitionChangeRecord]:
    """The elections when a broker is unfenced: it leads what nobody else could."""
    state = context.state
    brokers = BrokerChange(joining=node_id)
    for place in sorted(state.leaderless()):
        if node_id in state.partition(place).replicas:
            change = change_partition(context, place, brokers=brokers)
            if change is not None:
                yield change


def waiting_for_operator(state: ControllerState, node_id: NodeId) -> list[Place]:
    """Partitions of a broker that lives which only an unclean election gives a leader: nobody has
    all records, and the last leader does not have its log any more, or is not known.
    """
    return [
        place
        for place in sorted(state.leaderless())
        if node_id in (partition := state.partition(place)).replicas
        and not partition.isr
        and not partition.elr
        and partition.last_known_elr in ((), (node_id,))
    ]

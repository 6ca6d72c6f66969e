"""What becomes of partitions when a broker goes or comes: in-sync sets shrink, leaders change.

A broker that is fenced leaves the in-sync sets that have other members and leads nothing; the next
in-sync replica that can lead takes over, in a new leader epoch, else the partition has no leader. A
broker that is unfenced takes the partitions without leader that it is in sync with. An in-sync set
is never emptied: its last members are those who have all records.
"""

from collections.abc import Iterator

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.state import ControllerState, Place
from penstock.metadata.image.changes import FENCED, LEADER_UNCHANGED, NO_LEADER
from penstock.metadata.image.topic import PartitionImage
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
    records: list[MetadataRecord] = list(without_broker(context.state, request.node_id))
    if not broker.fenced:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=request.node_id, broker_epoch=broker.epoch, fenced=FENCED
            )
        )
    return Decision(records=tuple(records), reply=BrokerFenced(), framed=True)


def without_broker(state: ControllerState, node_id: NodeId) -> Iterator[PartitionChangeRecord]:
    """The changes to partitions when a broker is fenced or leaves."""
    for place in sorted(state.replicated_by(node_id)):
        partition = state.partition(place)
        others = [replica for replica in partition.isr if replica != node_id]
        leads = partition.leader == node_id
        leaves = node_id in partition.isr and len(others) > 0
        if leads or leaves:
            yield PartitionChangeRecord(
                topic_id=place.topic_id,
                partition_id=place.partition,
                isr=list(others) if leaves else None,
                leader=_elected(state, partition, others) if leads else LEADER_UNCHANGED,
            )


def led_again(state: ControllerState, node_id: NodeId) -> Iterator[PartitionChangeRecord]:
    """The elections when a broker is unfenced. Nobody else in the in-sync set can lead, or the
    partition would have a leader.
    """
    for place in sorted(state.leaderless()):
        if node_id in state.partition(place).isr:
            yield leader_change(place, node_id)


def leader_change(place: Place, leader: NodeId) -> PartitionChangeRecord:
    """A new leader epoch, also when the leader stays the same."""
    return PartitionChangeRecord(
        topic_id=place.topic_id, partition_id=place.partition, leader=leader
    )


def _elected(state: ControllerState, partition: PartitionImage, candidates: list[NodeId]) -> int:
    """The first replica, in the order of preference, that is in sync and can lead."""
    for replica in partition.replicas:
        if replica in candidates:
            broker = state.brokers.get(replica)
            if broker is not None and broker.is_usable:
                return replica
    return NO_LEADER

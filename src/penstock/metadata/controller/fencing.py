"""What becomes of partitions when brokers go or come: in-sync sets shrink, leaders change.

A broker that is fenced leaves the in-sync sets and leads nothing; another replica takes over, in a
new leader epoch, or the partition has no leader until one comes back (`partition_change`). If one
of its log directories fails, the same happens to what was in it, and the broker stays.

Nobody leaves an in-sync set to the silent, who may have lost records that are acked: a broker that
is gone stays in such a set, and is not fenced, until one of the others was heard from, or they are
gone, too. Those that leave a set together are all eligible to lead.
"""

from collections.abc import Collection, Container, Iterator

from penstock.machine.decision import Decision
from penstock.metadata.controller.broker_sessions import GoneBy
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.partition_change import (
    BrokerChange,
    can_lead,
    change_partition,
)
from penstock.metadata.controller.state import ControllerState, Place
from penstock.metadata.image.changes import FENCED
from penstock.metadata.image.topic import PartitionImage
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.messages.metadata_records.broker import BrokerRegistrationChangeRecord
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneBroker:
    """A process whose session has ended, or that is dead."""

    node_id: NodeId
    broker_epoch: int
    by: GoneBy


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBrokers:
    """The controller itself asks."""

    gone: tuple[GoneBroker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersFenced:
    gone: tuple[GoneBroker, ...]  # those of the request that are fenced now


def fence_brokers(
    context: DecisionContext, request: FenceBrokers
) -> Decision[MetadataRecord, BrokersFenced]:
    """As many as can be. BROKER_NOT_AVAILABLE when all of them have to wait for others."""
    registered = context.state.brokers
    gone = {
        one.node_id: one
        for one in request.gone
        # A later process may have registered, or the broker was unregistered: neither is fenced.
        if one.node_id in registered and registered[one.node_id].epoch == one.broker_epoch
    }
    if not gone:
        raise RequestError(ErrorCode.STALE_BROKER_EPOCH)
    leaving = frozenset(gone)
    waiting = _waiting_for_silent(context, leaving)
    records: list[MetadataRecord] = list(without_brokers(context, leaving, waiting=waiting))
    fenced = tuple(one for node_id, one in sorted(gone.items()) if node_id not in waiting)
    records.extend(
        BrokerRegistrationChangeRecord(
            broker_id=one.node_id, broker_epoch=one.broker_epoch, fenced=FENCED
        )
        for one in fenced
        if not registered[one.node_id].fenced
    )
    if not records and not fenced:
        raise RequestError(
            ErrorCode.BROKER_NOT_AVAILABLE, "Others in their in-sync sets are silent."
        )
    return Decision(records=tuple(records), reply=BrokersFenced(gone=fenced), framed=True)


def leaves_to_silent(context: DecisionContext, node_id: NodeId) -> bool:
    """Whether an in-sync set without the broker would have silent members only."""
    state, leaving = context.state, frozenset((node_id,))
    silent = _silent(context)
    return bool(silent) and any(
        _is_left_to(silent, state.partition(place), leaving)
        for place in state.replicated_by(node_id)
    )


def _waiting_for_silent(context: DecisionContext, leaving: frozenset[NodeId]) -> frozenset[NodeId]:
    """Those that cannot leave all of their in-sync sets yet. Whoever would leave one together with
    them waits, too: one that is not fenced could be elected there.
    """
    state, silent = context.state, _silent(context) - leaving
    if not silent:
        return frozenset()
    waiting: set[NodeId] = set()
    left_together = []
    for place in _replicated_by(state, leaving):
        partition = state.partition(place)
        if _is_left_to(silent, partition, leaving):
            waiting.update(leaving.intersection(partition.isr))
        elif leaving.issuperset(partition.isr):
            left_together.append(partition.isr)
    count = -1
    while waiting and count != len(waiting):
        count = len(waiting)
        for isr in left_together:
            if not waiting.isdisjoint(isr):
                waiting.update(isr)
    return frozenset(waiting)


def _silent(context: DecisionContext) -> set[NodeId]:
    return {
        node_id
        for node_id, broker in context.state.brokers.items()
        if not broker.fenced and context.sessions.is_silent(node_id, context.now_ms)
    }


def _is_left_to(
    silent: Container[NodeId], partition: PartitionImage, leaving: frozenset[NodeId]
) -> bool:
    """Whether somebody leaves the in-sync set, and the silent alone stay."""
    staying = [replica for replica in partition.isr if replica not in leaving]
    return 0 < len(staying) < len(partition.isr) and all(one in silent for one in staying)


def without_broker(
    context: DecisionContext, node_id: NodeId, *, has_lost_records: bool = False
) -> Iterator[PartitionChangeRecord]:
    """The changes to partitions when a broker is fenced, leaves, or has come back with less than it
    had.
    """
    return without_brokers(context, frozenset((node_id,)), has_lost_records=has_lost_records)


def without_brokers(
    context: DecisionContext,
    node_ids: frozenset[NodeId],
    *,
    has_lost_records: bool = False,
    waiting: frozenset[NodeId] = frozenset(),
) -> Iterator[PartitionChangeRecord]:
    """The same for brokers that go together. Those of them that have to wait for silent ones leave
    only the sets in which somebody stays that was heard from.
    """
    state = context.state
    silent = _silent(context) if waiting else ()
    brokers = BrokerChange(leaving=node_ids, has_lost_records=has_lost_records)
    for place in sorted(_replicated_by(state, node_ids)):
        partition = state.partition(place)
        had_all = (*partition.isr, *partition.elr) if has_lost_records else partition.isr
        if node_ids.isdisjoint(had_all):
            continue
        if not waiting.isdisjoint(partition.isr) and all(
            replica in node_ids or replica in silent for replica in partition.isr
        ):
            continue
        others = [replica for replica in partition.isr if replica not in node_ids]
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
    brokers = BrokerChange(leaving=frozenset((node_id,)), has_lost_records=True)
    return change_partition(context, place, isr=others, brokers=brokers)


def handed_over(context: DecisionContext, node_id: NodeId) -> Iterator[PartitionChangeRecord]:
    """The changes to partitions when a broker is about to shut down: it leaves the in-sync sets,
    and others lead what they can. It goes on to lead what nobody else can.
    """
    state = context.state
    brokers = BrokerChange(leaving=frozenset((node_id,)))
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


def reassigned_by(context: DecisionContext, node_id: NodeId) -> Iterator[PartitionChangeRecord]:
    """The changes to partitions when a broker that was silent speaks: reassignments to it that have
    waited for that are complete.
    """
    state = context.state
    brokers = BrokerChange(speaking=node_id)
    for place in sorted(state.reassigned()):
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


def _replicated_by(state: ControllerState, node_ids: Collection[NodeId]) -> set[Place]:
    return {place for node_id in node_ids for place in state.replicated_by(node_id)}

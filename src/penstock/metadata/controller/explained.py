"""What a decision of the controller means to people: who leads, who is in sync, and why.

`explained` looks at the records of a decision before they are applied, and at the request that they
answer. It decides nothing: the controller logs what it returns once the records are committed.
"""

from collections.abc import Iterable, Iterator
from enum import Enum

from penstock.metadata.controller.broker_sessions import GoneBy
from penstock.metadata.controller.decide import ControllerRequest
from penstock.metadata.controller.elections import BalanceLeaders, ElectionType
from penstock.metadata.controller.fencing import FenceBrokers
from penstock.metadata.controller.state import ControllerState, Place
from penstock.metadata.image.changes import (
    FENCED,
    LEADER_UNCHANGED,
    NO_LEADER,
    SHUTTING_DOWN,
    UNFENCED,
    changed_partition,
)
from penstock.metadata.image.topic import LeaderRecovery
from penstock.metadata.records import MetadataRecord
from penstock.metadata.topic_rules import min_in_sync
from penstock.model.identity import NodeId, TopicId
from penstock.model.lazy_dataclass import dataclass
from penstock.wire.messages.alter_partition import AlterPartitionRequest
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from penstock.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.wire.messages.broker_registration import BrokerRegistrationRequest
from penstock.wire.messages.elect_leaders import ElectLeadersRequest
from penstock.wire.messages.metadata_records.broker import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord
from penstock.wire.messages.unregister_broker import UnregisterBrokerRequest

PARTITIONS_EXPLAINED_MAX = 100


class Why(Enum):
    """Why a partition or a broker changed."""

    BROKER_FENCED = "broker_fenced"
    BROKER_UNFENCED = "broker_unfenced"
    BROKER_RESTARTED = "broker_restarted"
    BROKER_UNREGISTERED = "broker_unregistered"
    CONTROLLED_SHUTDOWN = "controlled_shutdown"
    DIRECTORY_FAILED = "log_directory_failed"
    REPLICA_CAUGHT_UP = "replica_caught_up"
    REPLICA_LAGGED = "replica_lagged"
    LEADER_ASKED = "leader_asked"
    PREFERRED = "preferred_leader"
    UNCLEAN = "unclean_election_asked"
    REASSIGNMENT = "reassignment"
    SETTINGS = "settings_changed"


class BrokerBecame(Enum):
    REGISTERED = "registered"
    FENCED = "fenced"
    UNFENCED = "unfenced"
    SHUTTING_DOWN = "shutting down"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChanged:
    broker: NodeId
    broker_epoch: int
    became: BrokerBecame
    why: Why | GoneBy | None = None
    previous_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChanged:
    partition: str  # with the name of its topic
    why: Why
    broker: NodeId | None  # on whose account it changed
    old_leader: NodeId | None
    leader: NodeId | None
    leader_epoch: int
    led_anew: bool
    is_unclean: bool
    isr: tuple[NodeId, ...]
    left: tuple[NodeId, ...]  # the in-sync set
    joined: tuple[NodeId, ...]
    min_insync: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesLeftOut:
    """How many partitions changed beside those that are explained one by one."""

    leaders: int
    unclean: int  # of them
    offline: int
    in_sync: int  # sets
    why: Why
    broker: NodeId | None


Explained = BrokerChanged | PartitionChanged | ChangesLeftOut


def explained(
    state: ControllerState, request: ControllerRequest, records: Iterable[MetadataRecord]
) -> Iterator[Explained]:
    """`state` is still as it was before the records. Everyone waits for the decision: the first
    partitions are explained, and the others counted.
    """
    partitions = 0
    leaders = unclean = offline = in_sync = 0  # of the rest
    for record in records:
        if isinstance(record, PartitionChangeRecord):
            if partitions == PARTITIONS_EXPLAINED_MAX:
                offline += record.leader == NO_LEADER
                leaders += record.leader not in (NO_LEADER, LEADER_UNCHANGED)
                unclean += record.leader_recovery_state == LeaderRecovery.RECOVERING
                in_sync += record.isr is not None
                continue
            changed = _partition(state, request, record)
            if changed is not None:
                partitions += 1
                yield changed
        elif isinstance(record, BrokerRegistrationChangeRecord):
            became = _broker(record)
            if became is not None:
                yield BrokerChanged(
                    broker=NodeId(record.broker_id),
                    broker_epoch=record.broker_epoch,
                    became=became,
                    why=_of_broker(state, request, record),
                )
        elif isinstance(record, RegisterBrokerRecord):
            before = state.brokers.get(NodeId(record.broker_id))
            yield BrokerChanged(
                broker=NodeId(record.broker_id),
                broker_epoch=record.broker_epoch,
                became=BrokerBecame.REGISTERED,
                previous_epoch=None if before is None else before.epoch,
            )
    if leaders or offline or in_sync:
        yield ChangesLeftOut(
            leaders=leaders,
            unclean=unclean,
            offline=offline,
            in_sync=in_sync,
            why=_why(state, request),
            broker=_broker_of(request),
        )


def _partition(
    state: ControllerState, request: ControllerRequest, record: PartitionChangeRecord
) -> PartitionChanged | None:
    place = Place(TopicId(record.topic_id), record.partition_id)
    topic = state.topics_by_id.get(place.topic_id)
    if topic is None or place.partition not in range(len(topic.partitions)):
        return None  # of a topic that the same decision makes
    before = state.partition(place)
    after = changed_partition(before, record)
    left = tuple(node for node in before.isr if node not in after.isr)
    joined = tuple(node for node in after.isr if node not in before.isr)
    led_anew = after.leader_epoch != before.leader_epoch
    if not (left or joined or led_anew):
        return None
    is_unclean = led_anew and record.leader_recovery_state == LeaderRecovery.RECOVERING
    return PartitionChanged(
        partition=f"{topic.name}-{place.partition}",
        why=_why(state, request, left=bool(left), joined=bool(joined)),
        broker=_broker_of(request, left),
        old_leader=before.leader,
        leader=after.leader,
        leader_epoch=after.leader_epoch,
        led_anew=led_anew,
        is_unclean=is_unclean,
        isr=after.isr,
        left=left,
        joined=joined,
        min_insync=min_in_sync(state, topic.name, replicas=after.replica_count),
    )


def _broker(record: BrokerRegistrationChangeRecord) -> BrokerBecame | None:
    if record.fenced == FENCED:
        return BrokerBecame.FENCED
    if record.fenced == UNFENCED:
        return BrokerBecame.UNFENCED
    return BrokerBecame.SHUTTING_DOWN if record.in_controlled_shutdown == SHUTTING_DOWN else None


def _of_broker(
    state: ControllerState, request: ControllerRequest, record: BrokerRegistrationChangeRecord
) -> Why | GoneBy:
    """Why a broker was fenced, or how the controller has found that it is gone."""
    if isinstance(request, FenceBrokers):
        return next(one.by for one in request.gone if one.node_id == record.broker_id)
    return _why(state, request)


def _why(
    state: ControllerState, request: ControllerRequest, *, left: bool = False, joined: bool = False
) -> Why:
    match request:
        case FenceBrokers():
            return Why.BROKER_FENCED
        case BrokerHeartbeatRequest():
            return _why_by_heartbeat(state, request)
        case BrokerRegistrationRequest():
            return Why.BROKER_RESTARTED
        case UnregisterBrokerRequest():
            return Why.BROKER_UNREGISTERED
        case AssignReplicasToDirsRequest():
            return Why.DIRECTORY_FAILED
        case AlterPartitionRequest():
            if left == joined:
                return Why.LEADER_ASKED
            return Why.REPLICA_LAGGED if left else Why.REPLICA_CAUGHT_UP
        case AlterPartitionReassignmentsRequest():
            return Why.REASSIGNMENT
        case BalanceLeaders():
            return Why.PREFERRED
        case ElectLeadersRequest():
            is_unclean = request.election_type == ElectionType.UNCLEAN
            return Why.UNCLEAN if is_unclean else Why.PREFERRED
        case _:
            return Why.SETTINGS


def _why_by_heartbeat(state: ControllerState, request: BrokerHeartbeatRequest) -> Why:
    broker = state.brokers.get(NodeId(request.broker_id))
    if request.want_shut_down or (broker is not None and broker.in_controlled_shutdown):
        return Why.CONTROLLED_SHUTDOWN
    if request.offline_log_dirs:
        return Why.DIRECTORY_FAILED
    if request.want_fence:
        return Why.BROKER_FENCED
    was_silent = broker is not None and not broker.fenced
    return Why.REASSIGNMENT if was_silent else Why.BROKER_UNFENCED


def _broker_of(request: ControllerRequest, left: Iterable[NodeId] = ()) -> NodeId | None:
    """On whose account something changed: the first of those that `left` together, if any."""
    match request:
        case FenceBrokers():
            gone = [one.node_id for one in request.gone]
            return next((node_id for node_id in left if node_id in gone), gone[0])
        case (
            BrokerHeartbeatRequest()
            | BrokerRegistrationRequest()
            | UnregisterBrokerRequest()
            | AssignReplicasToDirsRequest()
            | AlterPartitionRequest()
        ):
            return NodeId(request.broker_id)
        case _:
            return None

"""How brokers register, and how they are forgotten.

A new process of a broker is treated as if the one before had been fenced first, in the same
decision: it leaves the in-sync sets, and what it led gets a new leader epoch, however much that is.
A process that has lost nothing names the epoch that its broker was registered with; it stays, or
becomes, eligible to lead. One that does not may lack records, so it is not eligible any more; what
nobody else can lead it leads again as the last known leader, but only from the log directories that
it had before (`partition_change`). A process that has lost nothing is not registered while it would
leave an in-sync set to others that are silent: they may have lost what it still has.

The only broker of a cluster that has lost nothing goes on in the leader epochs that it had.
"""

from collections.abc import Iterable, Iterator, Sequence

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.fencing import leaves_to_silent, without_broker
from penstock.metadata.controller.registration_checks import check_registration
from penstock.metadata.controller.state import ControllerState, Place
from penstock.metadata.effective import CLUSTER_DEFAULT
from penstock.metadata.image.broker import BrokerImage
from penstock.metadata.image.changes import broker_of
from penstock.metadata.image.topic import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from penstock.metadata.records import ELR_VERSION_FEATURE, FEATURE_LEVELS, MetadataRecord
from penstock.metadata.topic_rules import MIN_IN_SYNC
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import RESERVED_IDS, NodeId, TopicId, id_text
from penstock.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from penstock.wire.messages.metadata_records.broker import (
    BrokerEndpoint,
    BrokerFeature,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.feature_level import FeatureLevelRecord
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord
from penstock.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

NO_PREVIOUS_EPOCH = -1


def bootstrap_records(*, min_insync_replicas: int | str = 1) -> tuple[MetadataRecord, ...]:
    """The first records of a metadata log: what a node's settings say of `min.insync.replicas` when
    the cluster begins is the default of the cluster from then on.
    """
    return missing_records(ControllerState(), min_insync_replicas=min_insync_replicas)


def missing_records(
    state: ControllerState, *, min_insync_replicas: int | str
) -> tuple[MetadataRecord, ...]:
    """The features that a metadata log has not finalised yet, and what they need: the log of an
    older version lacks some. For eligible leader replicas the cluster has one default of
    `min.insync.replicas`, and no broker has one of its own.
    """
    features = tuple(
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in FEATURE_LEVELS.items()
        if name not in state.features
    )
    if ELR_VERSION_FEATURE in state.features:
        return features
    defaults = []
    if MIN_IN_SYNC not in state.config(ResourceKind.BROKER, CLUSTER_DEFAULT):
        defaults.append(_min_in_sync_record(CLUSTER_DEFAULT, str(min_insync_replicas)))
    defaults.extend(
        _min_in_sync_record(resource.name, None)
        for resource, config in state.configs.items()
        if resource.kind == ResourceKind.BROKER and resource.name and MIN_IN_SYNC in config
    )
    return (*features, *defaults)


def _min_in_sync_record(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ResourceKind.BROKER, resource_name=broker, name=MIN_IN_SYNC, value=value
    )


def register_broker(
    context: DecisionContext, request: BrokerRegistrationRequest
) -> Decision[MetadataRecord, BrokerRegistrationResponse]:
    """The broker's epoch is the offset of the decision: later ones are larger."""
    state = context.state
    if request.cluster_id != context.cluster_id:
        raise RequestError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"This is cluster {context.cluster_id}; broker {request.broker_id} belongs to cluster "
            f"{request.cluster_id}.",
        )
    check_registration(request.broker_id, request.listeners)
    present = state.brokers.get(NodeId(request.broker_id))
    record = _record(request, broker_epoch=context.next_offset)
    if present is not None and present.incarnation != request.incarnation_id:
        _refuse_duplicate(context, present, broker_of(record))
    _check_directories(state, request)
    _check_features(state, request)
    if present is not None and present.incarnation == request.incarnation_id:
        return _registered_again(context, present, request)
    if present is not None and request.previous_broker_epoch == present.epoch:
        _refuse_while_others_are_silent(context, present)
    fencing = () if present is None else _replaced(context, present, request)
    missing = missing_records(state, min_insync_replicas=context.settings.min_insync_replicas)
    return Decision(
        records=(*fencing, record, *missing),
        reply=BrokerRegistrationResponse(broker_epoch=context.next_offset),
        framed=True,
    )


def _registered_again(
    context: DecisionContext, present: BrokerImage, request: BrokerRegistrationRequest
) -> Decision[MetadataRecord, BrokerRegistrationResponse]:
    """By the same process. While it is fenced it may still find out that it has lost records, and
    take back what it said: once it knows its partitions.
    """
    changes: Iterable[MetadataRecord] = ()
    if present.fenced and request.previous_broker_epoch == NO_PREVIOUS_EPOCH:
        changes = without_broker(context, present.node_id, has_lost_records=True)
    return Decision(
        records=tuple(changes),
        reply=BrokerRegistrationResponse(broker_epoch=present.epoch),
        framed=True,
    )


def unregister_broker(
    context: DecisionContext, request: UnregisterBrokerRequest
) -> Decision[MetadataRecord, UnregisterBrokerResponse]:
    """Forgets a broker that will not come back. As in Apache Kafka a living one is forgotten, too;
    its next heartbeat is refused.
    """
    broker = context.state.brokers.get(NodeId(request.broker_id))
    if broker is None:
        raise RequestError(
            ErrorCode.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {request.broker_id} is not currently registered",
        )
    records: tuple[MetadataRecord, ...] = (
        # It is not known what a process has lost that registers under this id later.
        *without_broker(context, broker.node_id, has_lost_records=True),
        UnregisterBrokerRecord(broker_id=broker.node_id, broker_epoch=broker.epoch),
    )
    return Decision(
        records=records, reply=UnregisterBrokerResponse(error_message=None), framed=True
    )


def _refuse_duplicate(
    context: DecisionContext, present: BrokerImage, registering: BrokerImage
) -> None:
    """RequestError while another process with this id may be alive. If its connection is gone and
    the new one listens at the same places, it is the restarted process.
    """
    is_alive = context.sessions.is_alive(present.node_id, context.now_ms)
    if not is_alive or (present.in_controlled_shutdown and present.fenced):
        return
    restarted = present.endpoints == registering.endpoints
    if not restarted or context.sessions.is_connected(present.node_id):
        raise RequestError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker with id {present.node_id} is registered and alive.",
        )


def _refuse_while_others_are_silent(context: DecisionContext, present: BrokerImage) -> None:
    """RequestError while the broker, which has all records, would leave an in-sync set to others
    that may have lost some. Their sessions end, or they are heard from, or register.
    """
    if leaves_to_silent(context, present.node_id):
        raise RequestError(
            ErrorCode.BROKER_NOT_AVAILABLE,
            f"Broker {present.node_id} would leave in-sync sets to others that are silent.",
        )


def _check_directories(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    message: str | None = None
    if not directories:
        message = "No directories specified in request"
    elif any(int.from_bytes(directory) < RESERVED_IDS for directory in directories):
        message = "Reserved directory ID in request"
    elif len(set(directories)) != len(directories):
        message = "Duplicate directory ID in request"
    for broker in state.brokers.values():
        shared = set(broker.directories).intersection(directories)
        if broker.node_id != request.broker_id and shared:
            message = (
                f"Broker {broker.node_id} is already registered with directory "
                f"{id_text(min(shared))}"
            )
    if message is not None:
        raise RequestError(ErrorCode.INVALID_REGISTRATION, message)


def _check_features(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    """RequestError when the broker does not support a level that the cluster has finalised."""
    supported = {
        feature.name: (feature.min_supported_version, feature.max_supported_version)
        for feature in request.features
    }
    for name, level in state.features.items():
        low, high = supported.get(name, (0, 0))
        if not low <= level <= high:
            raise RequestError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} "
                f"of {name}. The broker wants a version between {low} and {high}, inclusive.",
            )


def _replaced(
    context: DecisionContext, present: BrokerImage, request: BrokerRegistrationRequest
) -> Iterator[PartitionChangeRecord]:
    """The changes to partitions because the present process has ended."""
    is_clean = request.previous_broker_epoch == present.epoch
    is_only_broker = len(context.state.brokers) == 1
    if is_only_broker and is_clean:
        return
    changes = without_broker(context, present.node_id, has_lost_records=not is_clean)
    if is_clean or set(present.directories) <= set(request.log_dirs):
        yield from changes
    else:
        yield from _without_lost_directories(context.state, present.node_id, changes)


def _without_lost_directories(
    state: ControllerState, node_id: NodeId, changes: Iterable[PartitionChangeRecord]
) -> Iterator[PartitionChangeRecord]:
    """The changes, for a broker that comes back without some of its directories. Where it has not
    said in which one a replica is, that may be the missing one: then the broker must not lead as
    the last known leader.
    """
    by_place = {Place(TopicId(one.topic_id), one.partition_id): one for one in changes}
    for place in sorted(state.replicated_by(node_id)):
        partition, change = state.partition(place), by_place.get(place)
        last_known: Sequence[int] = partition.last_known_elr
        if change is not None and change.last_known_elr is not None:
            last_known = change.last_known_elr
        if list(last_known) == [node_id] and partition.directory(node_id) == UNASSIGNED_DIRECTORY:
            if change is None:
                change = PartitionChangeRecord(
                    topic_id=place.topic_id, partition_id=place.partition
                )
            change.directories = [
                LOST_DIRECTORY if replica == node_id else partition.directory(replica)
                for replica in partition.replicas
            ]
        if change is not None:
            yield change


def _record(request: BrokerRegistrationRequest, *, broker_epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            BrokerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ],
        features=[
            BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.log_dirs),
    )

"""A leader changes the in-sync set of its partition: replicas that lag leave, others join.

Only the present leader may, in its leader epoch, knowing the latest partition epoch; so what it
asks for follows from what it knows. A replica joins only as the process that the leader has seen:
one that has restarted meanwhile, is fenced, shuts down or has lost its log directory is refused
(KIP-841, KIP-903). A refusal is final: the same request does not succeed later. A leader that was
elected uncleanly says that it has recovered before, or while, the set grows. A set that holds the
target of a reassignment completes it: the leader may be another one then.
"""

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.heartbeat import registered_broker
from penstock.metadata.controller.partition_change import change_partition
from penstock.metadata.controller.state import ControllerState, Place
from penstock.metadata.image.broker import BrokerImage
from penstock.metadata.image.changes import changed_partition
from penstock.metadata.image.topic import LeaderRecovery, PartitionImage
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId, TopicId
from penstock.wire.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
)
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord

ANY_EPOCH = -1  # the leader does not know the epoch of that broker


def alter_partition(
    context: DecisionContext, request: AlterPartitionRequest
) -> Decision[MetadataRecord, AlterPartitionResponse]:
    """Changes each partition that can be changed; the reply has its state after that."""
    broker = registered_broker(context.state, request.broker_id, epoch=request.broker_epoch)
    records: list[MetadataRecord] = []
    asked: set[Place] = set()
    reply = AlterPartitionResponse()
    for topic in request.topics:
        altered = AlteredTopic(topic_id=topic.topic_id)
        reply.topics.append(altered)
        for data in topic.partitions:
            place = Place(TopicId(topic.topic_id), data.partition_index)
            result: AlteredPartition | ErrorCode = ErrorCode.INVALID_REQUEST
            if place not in asked:
                result = _alter(context, broker.node_id, place, data, records)
            asked.add(place)
            if isinstance(result, ErrorCode):
                result = AlteredPartition(partition_index=data.partition_index, error_code=result)
            altered.partitions.append(result)
    return Decision(records=tuple(records), reply=reply, framed=True)


def _alter(
    context: DecisionContext,
    node_id: NodeId,
    place: Place,
    data: AlterPartitionData,
    records: list[MetadataRecord],
) -> AlteredPartition | ErrorCode:
    topic = context.state.topics_by_id.get(place.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not 0 <= place.partition < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = topic.partitions[place.partition]
    members = data.new_isr_with_epochs or [BrokerState(broker_id=node) for node in data.new_isr]
    error = _error(partition, node_id, data, members)
    if error is not None:
        return error
    if _ineligible(context.state, partition, members):
        if _may_be_unfenced(context.state, partition, members):
            # The partition epoch goes up: the same request, sent before and still on its way, would
            # otherwise add the replica once it is unfenced, and by then the leader has gone on.
            records.append(
                PartitionChangeRecord(topic_id=place.topic_id, partition_id=place.partition)
            )
        return ErrorCode.INELIGIBLE_REPLICA
    change = change_partition(
        context,
        place,
        isr=[NodeId(member.broker_id) for member in members],
        recovery=LeaderRecovery(data.leader_recovery_state),
    )
    if change is not None:
        records.append(change)
        partition = changed_partition(partition, change)
    # It cannot lead, since its log directory is gone, or was removed by a reassignment.
    if partition.leader != node_id:
        return ErrorCode.NEW_LEADER_ELECTED
    return AlteredPartition(
        partition_index=place.partition,
        leader_id=node_id,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _error(
    partition: PartitionImage,
    node_id: NodeId,
    data: AlterPartitionData,
    members: list[BrokerState],
) -> ErrorCode | None:
    """Why the broker may not change the partition in this way."""
    if (
        data.leader_epoch > partition.leader_epoch
        or data.partition_epoch > partition.partition_epoch
    ):
        return ErrorCode.NOT_CONTROLLER  # the leader knows more than this controller
    if data.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if node_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if data.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = [member.broker_id for member in members]
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or node_id not in isr:
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state not in tuple(LeaderRecovery):
        return ErrorCode.INVALID_REQUEST
    if data.leader_recovery_state == LeaderRecovery.RECOVERING:
        recovered = partition.leader_recovery_state == LeaderRecovery.RECOVERED
        if recovered or len(isr) > 1:
            return ErrorCode.INVALID_REQUEST
    return None


def _ineligible(
    state: ControllerState, partition: PartitionImage, members: list[BrokerState]
) -> bool:
    """Whether one of them is not the process that runs, is fenced, or joins while it shuts down or
    without the log directory that it was in.
    """
    return any(
        (broker := state.brokers.get(NodeId(member.broker_id))) is None
        or broker.fenced
        or member.broker_epoch not in (ANY_EPOCH, broker.epoch)
        or (
            broker.node_id not in partition.isr
            and (broker.in_controlled_shutdown or not _has_directory(broker, partition))
        )
        for member in members
    )


def _may_be_unfenced(
    state: ControllerState, partition: PartitionImage, members: list[BrokerState]
) -> bool:
    """Whether all of them could be eligible later on, as the processes that they are."""
    return all(
        (broker := state.brokers.get(NodeId(member.broker_id))) is not None
        and not broker.in_controlled_shutdown
        and member.broker_epoch in (ANY_EPOCH, broker.epoch)
        and _has_directory(broker, partition)
        for member in members
    )


def _has_directory(broker: BrokerImage, partition: PartitionImage) -> bool:
    return broker.has_directory(partition.directory(broker.node_id))

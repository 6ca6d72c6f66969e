"""In which log directory of its broker a replica is (KIP-858).

The broker tells it, for replicas that the metadata has in another directory or in none. A last
known leader may lead again only from the directory in which it led (`partition_change`); once its
replica begins anew in another one, it is not the last known leader any more, and an operator has to
decide. A broker that is fenced and still has that directory may have been cut off while it moved
the replica: it is refused until it is unfenced, for it leads from where it led before.

A replica whose log the broker cannot open is in LOST_DIRECTORY: it is neither in sync nor eligible,
and does not lead, until the broker names a directory that has it.
"""

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext
from penstock.metadata.controller.fencing import without_replica
from penstock.metadata.controller.heartbeat import registered_broker
from penstock.metadata.controller.state import Place
from penstock.metadata.image.broker import BrokerImage
from penstock.metadata.image.topic import UNASSIGNED_DIRECTORY
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode
from penstock.model.identity import TopicId
from penstock.wire.messages.assign_replicas_to_dirs import (
    AssignedDirectory,
    AssignedReplica,
    AssignedTopic,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord


def assign_replicas(
    context: DecisionContext, request: AssignReplicasToDirsRequest
) -> Decision[MetadataRecord, AssignReplicasToDirsResponse]:
    """Assigns each replica; each has its own result. A directory that the broker is not registered
    with has failed, and the replica with it: others lead the partition. It was made there before
    the metadata knew where it is, or its move to another directory was assigned and not done yet.
    A directory of another broker is refused.
    """
    broker = registered_broker(context.state, request.broker_id, epoch=request.broker_epoch)
    changes: dict[Place, PartitionChangeRecord] = {}
    reply = AssignReplicasToDirsResponse()
    for directory in request.directories:
        assigned = AssignedDirectory(id=directory.id)
        reply.directories.append(assigned)
        for topic in directory.topics:
            results = AssignedTopic(topic_id=topic.topic_id)
            assigned.topics.append(results)
            for replica in topic.partitions:
                place = Place(TopicId(topic.topic_id), replica.partition_index)
                code = _assign(context, broker, place, directory.id, changes)
                results.partitions.append(
                    AssignedReplica(partition_index=place.partition, error_code=code)
                )
    return Decision(records=tuple(changes.values()), reply=reply, framed=True)


def _assign(
    context: DecisionContext,
    broker: BrokerImage,
    place: Place,
    directory: bytes,
    changes: dict[Place, PartitionChangeRecord],
) -> ErrorCode:
    topic = context.state.topics_by_id.get(place.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not 0 <= place.partition < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = topic.partitions[place.partition]
    if broker.node_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if any(
        directory in other.directories
        for other in context.state.brokers.values()
        if other.node_id != broker.node_id
    ):
        return ErrorCode.LOG_DIR_NOT_FOUND
    assigned = partition.directory(broker.node_id)
    could_lead = broker.node_id in (*partition.elr, *partition.last_known_elr)
    directories = [
        directory if replica == broker.node_id else partition.directory(replica)
        for replica in partition.replicas
    ]
    changes.pop(place, None)  # the last one that the request names counts
    if tuple(directories) != partition.directories:
        change = PartitionChangeRecord(
            topic_id=place.topic_id, partition_id=place.partition, directories=directories
        )
        if directory not in broker.directories:
            failed = without_replica(context, broker.node_id, place) or change
            failed.directories = directories
            change = failed
        elif could_lead and broker.fenced and assigned in broker.directories:
            return ErrorCode.INELIGIBLE_REPLICA
        elif assigned != UNASSIGNED_DIRECTORY:
            if broker.node_id in partition.elr:
                change.eligible_leader_replicas = [
                    replica for replica in partition.elr if replica != broker.node_id
                ]
            if broker.node_id in partition.last_known_elr:
                change.last_known_elr = []
        changes[place] = change
    return ErrorCode.NONE

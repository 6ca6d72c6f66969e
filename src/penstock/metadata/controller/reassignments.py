"""Partitions move to other brokers: an operator says where, changes it, or stops it (KIP-455).

A reassignment first adds the new replicas and keeps the old ones. It is complete once the whole
target is in sync, whatever led to that (`partition_change`); then the others are dropped. What is
asked for again with another target goes on from where it is, and can still be cancelled to where it
began.
"""

from penstock.machine.decision import Decision
from penstock.metadata.controller.assignment import Assignment
from penstock.metadata.controller.decision_context import DecisionContext, Refusal
from penstock.metadata.controller.partition_change import (
    Election,
    can_lead,
    change_partition,
    election_of,
)
from penstock.metadata.controller.placement import manual_error
from penstock.metadata.controller.state import Place
from penstock.metadata.controller.topics import TOO_LARGE
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from penstock.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from penstock.wire.messages.metadata_records.partition import PartitionChangeRecord

Result = PartitionChangeRecord | Refusal | None  # None: the partition is as it was asked for


def alter_reassignments(
    context: DecisionContext, request: AlterPartitionReassignmentsRequest
) -> Decision[MetadataRecord, AlterPartitionReassignmentsResponse]:
    """Begins, changes or cancels the reassignment of each partition; each has its own result."""
    records: list[MetadataRecord] = []
    asked: set[tuple[str, int]] = set()
    reply = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change
    )
    for topic in request.topics:
        results = ReassignableTopicResponse(name=topic.name)
        reply.responses.append(results)
        for partition in topic.partitions:
            index = partition.partition_index
            result: Result
            if (topic.name, index) in asked:
                message = f"Partition {topic.name}:{index} is named more than once."
                result = Refusal(code=ErrorCode.INVALID_REQUEST, message=message)
            else:
                result = _reassign(
                    context,
                    topic.name,
                    index,
                    partition.replicas,
                    may_change_factor=request.allow_replication_factor_change,
                )
            asked.add((topic.name, index))
            answer = ReassignablePartitionResponse(partition_index=index)
            if isinstance(result, Refusal):
                answer.error_code, answer.error_message = result.code, result.message
            elif result is not None:
                records.append(result)
            results.partitions.append(answer)
    if len(records) > DECISION_RECORDS_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    return Decision(records=tuple(records), reply=reply)


def list_reassignments(
    context: DecisionContext, request: ListPartitionReassignmentsRequest
) -> Decision[MetadataRecord, ListPartitionReassignmentsResponse]:
    """Those that run, of all topics or of the partitions named; what is not there is left out."""
    state = context.state
    found: dict[str, list[int]] = {}
    if request.topics is None:
        for place in sorted(state.reassigned()):
            name = state.topics_by_id[place.topic_id].name
            found.setdefault(name, []).append(place.partition)
    else:
        for topic in request.topics:
            found.setdefault(topic.name, []).extend(topic.partition_indexes)
    reply = ListPartitionReassignmentsResponse()
    for name, indexes in found.items():
        ongoing = OngoingTopicReassignment(name=name)
        known = state.topics_by_name.get(name)
        partitions = [] if known is None else known.partitions
        for index in dict.fromkeys(indexes):
            if 0 <= index < len(partitions) and (partition := partitions[index]).is_reassigned:
                ongoing.partitions.append(
                    OngoingPartitionReassignment(
                        partition_index=index,
                        replicas=list(partition.replicas),
                        adding_replicas=list(partition.adding_replicas),
                        removing_replicas=list(partition.removing_replicas),
                    )
                )
        if ongoing.partitions:
            reply.topics.append(ongoing)
    return Decision(reply=reply)


def _reassign(
    context: DecisionContext,
    name: str,
    index: int,
    replicas: list[int] | None,
    *,
    may_change_factor: bool,
) -> Result:
    topic = context.state.topics_by_name.get(name)
    if topic is None:
        return Refusal(
            code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            message=f"Unable to find a topic named {name}.",
        )
    if not 0 <= index < len(topic.partitions):
        return Refusal(
            code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            message=f"Unable to find partition {name}:{index}.",
        )
    place = Place(topic.topic_id, index)
    if replicas is None:
        return _cancel(context, name, place)
    error = manual_error(context.state, replicas, replication_factor=None)
    if error is not None:
        return Refusal(code=ErrorCode.INVALID_REPLICA_ASSIGNMENT, message=error)
    factor = topic.partitions[index].replication_factor
    if not may_change_factor and len(replicas) != factor:
        return Refusal(
            code=ErrorCode.INVALID_REPLICATION_FACTOR,
            message=f"The replication factor is changed from {factor} to {len(replicas)}",
        )
    target = [NodeId(node) for node in replicas]
    assignment = Assignment.of(topic.partitions[index]).towards(target)
    return change_partition(context, place, assignment=assignment, election=Election.CLEAN)


def _cancel(context: DecisionContext, name: str, place: Place) -> Result:
    """The partition is held by those again that held it before. The others may be all that is in
    sync by now: they are dropped only if a replica that stays has all records, or if the topic
    allows unclean elections.
    """
    state, partition = context.state, context.state.partition(place)
    if not partition.is_reassigned:
        return Refusal(
            code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            message="No partition reassignment is in progress.",
        )
    assignment = Assignment.of(partition).reverted()
    stay = assignment.replicas
    isr = [node for node in partition.isr if node in stay]
    have_all = isr or [node for node in partition.elr if node in stay]
    if partition.leader is None:
        last = [node for node in partition.last_known_elr if node in stay]
        is_safe = bool(have_all or (last and not partition.isr and not partition.elr))
    else:
        is_safe = any(can_lead(state, partition, node) for node in have_all)
    election = election_of(context, place)
    if not is_safe and (
        election != Election.UNCLEAN or not any(can_lead(state, partition, node) for node in stay)
    ):
        return Refusal(
            code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            message=f"Unable to revert partition assignment for {name}:{place.partition} because "
            "it would require an unclean leader election.",
        )
    if is_safe:
        election = Election.CLEAN
    return change_partition(context, place, isr=isr, assignment=assignment, election=election)

"""More partitions for topics that exist.

Internal topics keep their number, where Apache Kafka lets it grow: coordinators find the partition
of a group or a transactional id by it. With another number offsets, fencing and prepared
transactions would lie where nobody looks for them.
"""

from collections import Counter

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext, Refusal
from penstock.metadata.controller.placement import manual_error, new_partition, place
from penstock.metadata.controller.state import ControllerState, TopicState
from penstock.metadata.controller.topics import TOO_LARGE
from penstock.metadata.records import MetadataRecord
from penstock.model.error import ErrorCode, RequestError
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.model.topic_name import INTERNAL_TOPICS
from penstock.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def create_partitions(
    context: DecisionContext, request: CreatePartitionsRequest
) -> Decision[MetadataRecord, CreatePartitionsResponse]:
    """Grows each topic to the count asked for; existing partitions stay as they are."""
    asked = Counter(topic.name for topic in request.topics)
    by_name = {topic.name: topic for topic in request.topics}
    records: list[MetadataRecord] = []
    results: list[CreatePartitionsTopicResult] = []
    for name, count in asked.items():
        grown: list[MetadataRecord] | Refusal
        if count > 1:
            grown = Refusal(code=ErrorCode.INVALID_REQUEST, message="Duplicate topic name.")
        else:
            grown = _grow(
                context.state, by_name[name], records_left=DECISION_RECORDS_MAX - len(records)
            )
        if isinstance(grown, Refusal):
            results.append(
                CreatePartitionsTopicResult(
                    name=name, error_code=grown.code, error_message=grown.message
                )
            )
        else:
            records.extend(grown)
            results.append(CreatePartitionsTopicResult(name=name))
    reply = CreatePartitionsResponse(results=results)
    return Decision(records=() if request.validate_only else tuple(records), reply=reply)


def _grow(
    state: ControllerState, topic: CreatePartitionsTopic, *, records_left: int
) -> list[MetadataRecord] | Refusal:
    found = state.topics_by_name.get(topic.name)
    if found is None:
        return Refusal(
            code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            message="This server does not host this topic-partition.",
        )
    if topic.name in INTERNAL_TOPICS:
        return Refusal(
            code=ErrorCode.INVALID_TOPIC_EXCEPTION,
            message=f"The number of partitions of the internal topic {topic.name} cannot change: "
            "what it holds is found by it.",
        )
    present = len(found.partitions)
    if topic.count == present:
        message = f"Topic already has {present} partition(s)."
        return Refusal(code=ErrorCode.INVALID_PARTITIONS, message=message)
    if topic.count < present:
        return Refusal(
            code=ErrorCode.INVALID_PARTITIONS,
            message=f"The topic {topic.name} currently has {present} partition(s); "
            f"{topic.count} would not be an increase.",
        )
    if topic.count - present > records_left:
        raise RequestError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    if topic.assignments is not None:
        return _grow_by_hand(state, found, topic)
    return _grow_by_placement(state, found, count=topic.count - present)


def _grow_by_placement(
    state: ControllerState, topic: TopicState, *, count: int
) -> list[MetadataRecord] | Refusal:
    first = len(topic.partitions)
    placed = place(
        state,
        topic_id=topic.topic_id,
        from_partition=first,
        count=count,
        replication_factor=topic.partitions[0].replication_factor,
    )
    if isinstance(placed, Refusal):
        return placed
    records: list[MetadataRecord] = []
    for partition, replicas in enumerate(placed, start=first):
        record = new_partition(
            state, topic_id=topic.topic_id, partition=partition, replicas=replicas
        )
        assert record is not None, "the placement begins with a broker that is not fenced"
        records.append(record)
    return records


def _grow_by_hand(
    state: ControllerState, topic: TopicState, asked: CreatePartitionsTopic
) -> list[MetadataRecord] | Refusal:
    assert asked.assignments is not None
    first = len(topic.partitions)
    if len(asked.assignments) != asked.count - first:
        return Refusal(
            code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            message=f"Attempted to add {asked.count - first} additional partition(s), "
            f"but only {len(asked.assignments)} assignment(s) were specified.",
        )
    replication_factor = topic.partitions[0].replication_factor
    records: list[MetadataRecord] = []
    for partition, assignment in enumerate(asked.assignments, start=first):
        replicas = assignment.broker_ids
        error = manual_error(state, replicas, replication_factor=replication_factor)
        if error is not None:
            return Refusal(code=ErrorCode.INVALID_REPLICA_ASSIGNMENT, message=error)
        record = new_partition(
            state, topic_id=topic.topic_id, partition=partition, replicas=replicas
        )
        if record is None:
            return Refusal(
                code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                message="All brokers specified in the manual partition assignment for partition "
                f"{partition} are fenced or in controlled shutdown.",
            )
        records.append(record)
    return records

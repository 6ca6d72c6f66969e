"""Creating and deleting topics."""

from collections import Counter
from collections.abc import Sequence

from penstock.machine.decision import Decision
from penstock.metadata.controller.decision_context import DecisionContext, Refusal
from penstock.metadata.controller.placement import manual_error, new_partition, place
from penstock.metadata.controller.state import ControllerState, TopicState
from penstock.metadata.describe import (
    Described,
    Standpoint,
    describe_topic,
    describe_topic_defaults,
)
from penstock.metadata.image.topic import PartitionImage
from penstock.metadata.records import MetadataRecord
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import METADATA_TOPIC, NO_TOPIC_ID, TopicId
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.model.settings.setting import InvalidSetting
from penstock.model.settings.topic import validate_topic
from penstock.model.topic_name import collision_key, topic_name_error
from penstock.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.partition import PartitionRecord
from penstock.wire.messages.metadata_records.topic import RemoveTopicRecord, TopicRecord

TOO_LARGE = "Unable to perform excessively large batch operation."
DEFAULT = -1  # on the wire: partitions or replicas are left to the cluster


def create_topics(
    context: DecisionContext, request: CreateTopicsRequest
) -> Decision[MetadataRecord, CreateTopicsResponse]:
    """Creates each topic that can be created; a topic that cannot does not affect the others."""
    asked = Counter(topic.name for topic in request.topics)
    topics = [topic for topic in request.topics if asked[topic.name] == 1]
    duplicates = [name for name, count in asked.items() if count > 1]
    if _records_at_least(context, topics) > DECISION_RECORDS_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    names_taken: dict[str, str] = {}  # by topics before it in the request, by collision key
    defaults = describe_topic_defaults(
        Standpoint(metadata=context.state, static=context.settings, node_id=context.node_id)
    )
    records: list[MetadataRecord] = []
    results: list[CreatableTopicResult] = []
    for topic, fresh_id in zip(topics, context.fresh_ids, strict=False):
        topic_id = _id_of(context.state, topic, fresh_id)
        again = _made_before(context.state, topic)
        if again is not None:
            results.append(_result(topic, again.topic_id, again.partitions, defaults))
            continue
        created = _create_topic(context, topic, topic_id, names_taken)
        if isinstance(created, Refusal):
            results.append(_refused(topic.name, created))
            continue
        records.extend(created)
        partitions = [one for one in created if isinstance(one, PartitionRecord)]
        results.append(_result(topic, topic_id, partitions, defaults))
        names_taken[collision_key(topic.name)] = topic.name
    for name in duplicates:
        error = Refusal(code=ErrorCode.INVALID_REQUEST, message="Duplicate topic name.")
        results.append(_refused(name, error))
    if len(records) > DECISION_RECORDS_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    reply = CreateTopicsResponse(topics=results)
    return Decision(records=() if request.validate_only else tuple(records), reply=reply)


def delete_topics(
    context: DecisionContext, request: DeleteTopicsRequest
) -> Decision[MetadataRecord, DeleteTopicsResponse]:
    """Deletes topics by name or by id; each has its own result."""
    if not context.settings.delete_topic_enable:
        raise RequestError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    results: list[DeletableTopicResult] = []
    names = Counter(request.topic_names)
    ids: Counter[TopicId] = Counter()
    for topic in request.topics:
        topic_id = TopicId(topic.topic_id)
        if topic.name is not None and topic_id != NO_TOPIC_ID:
            message = "You may not specify both topic name and topic id."
            results.append(_not_deleted(topic.name, topic_id, message))
        elif topic.name is not None:
            names[topic.name] += 1
        elif topic_id != NO_TOPIC_ID:
            ids[topic_id] += 1
        else:
            message = "Neither topic name nor id were specified."
            results.append(_not_deleted(None, NO_TOPIC_ID, message))
    doomed: dict[TopicId, str] = {}
    results.extend(_find_by_id(context.state, ids, doomed))
    results.extend(_find_by_name(context.state, names, doomed))
    records = tuple(RemoveTopicRecord(topic_id=topic_id) for topic_id in doomed)
    if len(records) > DECISION_RECORDS_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    results.extend(
        DeletableTopicResult(name=name, topic_id=topic_id) for topic_id, name in doomed.items()
    )
    return Decision(records=records, reply=DeleteTopicsResponse(responses=results))


def _create_topic(
    context: DecisionContext,
    topic: CreatableTopic,
    topic_id: TopicId,
    names_taken: dict[str, str],
) -> list[MetadataRecord] | Refusal:
    """The records that make the topic: itself, its settings, its partitions."""
    error = _name_error(context.state, topic.name, names_taken)
    error = error or _config_error(context, topic)
    if error is not None:
        return error
    partitions = _partitions(context, topic, topic_id)
    if isinstance(partitions, Refusal):
        return partitions
    records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records.extend(
        ConfigRecord(
            resource_type=ResourceKind.TOPIC,
            resource_name=topic.name,
            name=config.name,
            value=config.value,
        )
        for config in topic.configs
    )
    return records + partitions


def _id_of(state: ControllerState, topic: CreatableTopic, fresh_id: TopicId) -> TopicId:
    """The id that was proposed, unless another topic has it."""
    proposed = TopicId(topic.proposed_id)
    if proposed == NO_TOPIC_ID or proposed in state.topics_by_id:
        return fresh_id
    return proposed


def _made_before(state: ControllerState, topic: CreatableTopic) -> TopicState | None:
    """The topic, if this very request has made it already and its reply was lost."""
    present = state.topics_by_name.get(topic.name)
    if present is None or present.topic_id != topic.proposed_id:
        return None
    return present


def _name_error(state: ControllerState, name: str, names_taken: dict[str, str]) -> Refusal | None:
    error = topic_name_error(name)
    if error is not None:
        return Refusal(code=ErrorCode.INVALID_TOPIC_EXCEPTION, message=error)
    if name == METADATA_TOPIC:
        message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        return Refusal(code=ErrorCode.INVALID_REQUEST, message=message)
    if name in state.topics_by_name:
        message = f"Topic '{name}' already exists."
        return Refusal(code=ErrorCode.TOPIC_ALREADY_EXISTS, message=message)
    key = collision_key(name)
    taken = state.names_by_collision_key.get(key) or names_taken.get(key)
    if taken is not None:
        message = f"Topic '{name}' collides with existing topic: {taken}"
        return Refusal(code=ErrorCode.INVALID_TOPIC_EXCEPTION, message=message)
    return None


def _config_error(context: DecisionContext, topic: CreatableTopic) -> Refusal | None:
    without_value = [config.name for config in topic.configs if config.value is None]
    if without_value:
        message = f"Null value not supported for topic configs: {','.join(without_value)}"
        return Refusal(code=ErrorCode.INVALID_CONFIG, message=message)
    try:
        validate_topic(_overrides(topic), context.settings)
    except InvalidSetting as error:
        return Refusal(code=ErrorCode.INVALID_CONFIG, message=str(error))
    return None


def _partitions(
    context: DecisionContext, topic: CreatableTopic, topic_id: TopicId
) -> list[MetadataRecord] | Refusal:
    if topic.assignments:
        return _partitions_by_hand(context.state, topic, topic_id)
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        return Refusal(
            code=ErrorCode.INVALID_REPLICATION_FACTOR,
            message="Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
        return Refusal(
            code=ErrorCode.INVALID_PARTITIONS,
            message="Number of partitions was set to an invalid non-positive value.",
        )
    defaults = context.settings
    placed = place(
        context.state,
        topic_id=topic_id,
        from_partition=0,
        count=defaults.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions,
        replication_factor=defaults.default_replication_factor
        if topic.replication_factor == DEFAULT
        else topic.replication_factor,
    )
    if isinstance(placed, Refusal):
        return placed
    records: list[MetadataRecord] = []
    for partition, replicas in enumerate(placed):
        record = new_partition(
            context.state, topic_id=topic_id, partition=partition, replicas=replicas
        )
        assert record is not None, "the placement begins with a broker that is not fenced"
        records.append(record)
    return records


def _partitions_by_hand(
    state: ControllerState, topic: CreatableTopic, topic_id: TopicId
) -> list[MetadataRecord] | Refusal:
    if topic.replication_factor != DEFAULT or topic.num_partitions != DEFAULT:
        field = "replication factor" if topic.replication_factor != DEFAULT else "numPartitions"
        message = f"A manual partition assignment was specified, but {field} was not set to -1."
        return Refusal(code=ErrorCode.INVALID_REQUEST, message=message)
    assignments = sorted(topic.assignments, key=lambda assignment: assignment.partition_index)
    records: list[MetadataRecord] = []
    error: str | None = None
    replication_factor: int | None = None
    for partition, assignment in enumerate(assignments):
        if partition > 0 and assignments[partition - 1].partition_index == (
            index := assignment.partition_index
        ):
            error = f"Found multiple manual partition assignments for partition {index}"
        elif assignment.partition_index != partition:
            error = "partitions should be a consecutive 0-based integer sequence"
        else:
            replicas = assignment.broker_ids
            error = manual_error(state, replicas, replication_factor=replication_factor)
            replication_factor = len(replicas)
        if error is not None:
            return Refusal(code=ErrorCode.INVALID_REPLICA_ASSIGNMENT, message=error)
        record = new_partition(state, topic_id=topic_id, partition=partition, replicas=replicas)
        if record is None:
            return Refusal(
                code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                message="All brokers specified in the manual partition assignment for partition "
                f"{partition} are fenced or in controlled shutdown.",
            )
        records.append(record)
    return records


def _records_at_least(context: DecisionContext, topics: Sequence[CreatableTopic]) -> int:
    """How many records the topics need, known before any is made."""
    default = context.settings.num_partitions
    return sum(
        1
        + len(topic.configs)
        + max(
            default if topic.num_partitions == DEFAULT else topic.num_partitions,
            len(topic.assignments),
        )
        for topic in topics
    )


def _overrides(topic: CreatableTopic) -> dict[str, str]:
    return {config.name: config.value for config in topic.configs if config.value is not None}


def _result(
    topic: CreatableTopic,
    topic_id: TopicId,
    partitions: Sequence[PartitionRecord] | Sequence[PartitionImage],
    defaults: Sequence[Described],
) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                name=described.name,
                value=described.value,
                read_only=described.read_only,
                config_source=described.source,
                is_sensitive=described.sensitive,
            )
            for described in describe_topic(_overrides(topic), defaults)
        ],
    )


def _refused(name: str, error: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message, configs=[]
    )


def _find_by_id(
    state: ControllerState, ids: Counter[TopicId], doomed: dict[TopicId, str]
) -> list[DeletableTopicResult]:
    """Adds to `doomed` what was found; returns the answers for the rest."""
    results = []
    for topic_id, count in ids.items():
        topic = state.topics_by_id.get(topic_id)
        if count > 1:
            results.append(_not_deleted(None, topic_id, "Duplicate topic id."))
        elif topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            message = "This server does not host this topic ID."
            results.append(_not_deleted(None, topic_id, message, code))
        else:
            doomed[topic_id] = topic.name
    return results


def _find_by_name(
    state: ControllerState, names: Counter[str], doomed: dict[TopicId, str]
) -> list[DeletableTopicResult]:
    results = []
    for name, count in names.items():
        topic = state.topics_by_name.get(name)
        if count > 1:
            results.append(_not_deleted(name, NO_TOPIC_ID, "Duplicate topic name."))
        elif topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            message = "This server does not host this topic-partition."
            results.append(_not_deleted(name, NO_TOPIC_ID, message, code))
        elif doomed.pop(topic.topic_id, None) is not None:
            message = "The provided topic name maps to an ID that was already supplied."
            results.append(_not_deleted(name, topic.topic_id, message))
        else:
            doomed[topic.topic_id] = name
    return results


def _not_deleted(
    name: str | None,
    topic_id: TopicId,
    message: str,
    code: ErrorCode = ErrorCode.INVALID_REQUEST,
) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=code, error_message=message
    )

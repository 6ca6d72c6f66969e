"""Rules about topics that are more than one question a part: what may be seen, made and deleted."""

from collections.abc import Callable
from typing import Any

from penstock.broker.request.authorization.rule import (
    Asked,
    Complete,
    judge,
    take_refused,
    topic_part,
)
from penstock.broker.request.authorized_operations import NOT_ASKED_FOR
from penstock.model.configs import ResourceKind
from penstock.model.error import ErrorCode
from penstock.model.identity import NO_TOPIC_ID
from penstock.security.acl.words import CLUSTER_NAME, AclOperation, ResourceType
from penstock.wire.definition import Message
from penstock.wire.messages.create_topics import CreateTopicsResponse
from penstock.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from penstock.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

TOPIC = ResourceType.TOPIC
FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNKNOWN_PARTITIONS = -1
METADATA_BY_ID_FROM = 12
KINDS = frozenset(ResourceKind)


def metadata(asked: Asked) -> Complete | None:
    """Topics that the client may not describe are hidden from the list of all. Of one that it
    names it learns the refusal, and not whether there is such a topic.
    """
    request: MetadataRequest = asked.request
    if asked.version < METADATA_BY_ID_FROM and any(
        topic.name is None or topic.topic_id != NO_TOPIC_ID for topic in request.topics or ()
    ):
        return None  # refused by its handler: a reply could not do without the names
    refused: list[MetadataResponseTopic] = []
    if request.topics is None or (asked.version == 0 and not request.topics):
        request.allow_auto_topic_creation = False
        request.topics = [
            MetadataRequestTopic(name=name)
            for name in asked.services.image.topics_by_name
            if asked.access.may(AclOperation.DESCRIBE, TOPIC, name)
        ]
    else:
        kept = []
        for topic in request.topics:
            if _may_see(asked, topic):
                kept.append(topic)
            else:
                by_id = topic.topic_id != NO_TOPIC_ID
                name = None if by_id else topic.name
                refused.append(
                    MetadataResponseTopic(
                        error_code=FAILED, name=name, topic_id=topic.topic_id, partitions=[]
                    )
                )
        asked.narrow("topics", kept)

    def complete(response: MetadataResponse) -> None:
        if request.include_topic_authorized_operations:
            for topic in response.topics:
                if topic.error_code == ErrorCode.NONE and topic.name is not None:
                    topic.topic_authorized_operations = asked.access.operations(TOPIC, topic.name)
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = cluster_operations(asked)
        response.topics = [*response.topics, *refused]

    return complete


def _may_see(asked: Asked, topic: MetadataRequestTopic) -> bool:
    """Where there is an id, it alone says which topic is meant. One that no topic has is left to
    the handler.
    """
    name = topic.name if topic.topic_id == NO_TOPIC_ID else asked.topic_name(topic.topic_id)
    if name is None:
        return True
    if not asked.access.may(AclOperation.DESCRIBE, TOPIC, name):
        return False
    request: MetadataRequest = asked.request
    creates = (
        request.allow_auto_topic_creation
        and asked.services.settings.auto_create_topics_enable
        and topic.topic_id == NO_TOPIC_ID
        and topic.name not in asked.services.image.topics_by_name
    )
    return not creates or may_create(asked, topic.name or "")


def cluster_operations(asked: Asked) -> int:
    if not asked.access.may_cluster(AclOperation.DESCRIBE):
        return 0
    return asked.access.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def describe_cluster(asked: Asked, response: Any) -> None:
    if response.cluster_authorized_operations != NOT_ASKED_FOR:
        response.cluster_authorized_operations = cluster_operations(asked)


def describe_topic_partitions(asked: Asked) -> Complete | Message | None:
    request = asked.request
    if not request.topics:
        request.topics = [
            TopicRequest(name=name)
            for name in asked.services.image.topics_by_name
            if asked.access.may(AclOperation.DESCRIBE, TOPIC, name)
        ]
        if not request.topics:
            return DescribeTopicPartitionsResponse()
    refused = take_refused(asked, "topics", "topics", topic_part(AclOperation.DESCRIBE))
    if isinstance(refused, Message):
        return refused

    def complete(response: DescribeTopicPartitionsResponse) -> None:
        for topic in response.topics:
            topic.topic_authorized_operations = asked.access.operations(TOPIC, topic.name or "")
        if refused is not None:
            refused(response)

    return complete


def may_create(asked: Asked, name: str) -> bool:
    """CREATE on the cluster stands for CREATE on every topic."""
    return asked.access.may_cluster(AclOperation.CREATE) or asked.access.may(
        AclOperation.CREATE, TOPIC, name
    )


def created_topic(asked: Asked, part: Any) -> ErrorCode:
    return ErrorCode.NONE if may_create(asked, part.name) else FAILED


def hide_settings_of_created(asked: Asked, response: CreateTopicsResponse) -> None:
    """Who may create a topic need not be allowed to see what it is like (KIP-525)."""
    for topic in response.topics:
        seen = asked.access.may(AclOperation.DESCRIBE_CONFIGS, TOPIC, topic.name)
        if topic.error_code == ErrorCode.NONE and not seen:
            topic.topic_config_error_code = FAILED
            topic.num_partitions = UNKNOWN_PARTITIONS
            topic.replication_factor = UNKNOWN_PARTITIONS
            topic.configs = None


def delete_topics(asked: Asked) -> Complete | Message | None:
    """DELETE on the cluster stands for DELETE on every topic. A topic that is named by its id keeps
    its name to itself, unless the client may describe it.
    """
    if asked.access.may_cluster(AclOperation.DELETE):
        return None
    request = asked.request
    refused: list[DeletableTopicResult] = []
    names, topics = [], []
    for name in request.topic_names:
        if _may_ask_to_delete(asked, name):
            names.append(name)
        else:
            refused.append(DeletableTopicResult(name=name, error_code=FAILED))
    for topic in request.topics:
        named = topic.name is not None
        if named and topic.topic_id != NO_TOPIC_ID:
            topics.append(topic)  # refused by the controller: one of the two would do
            continue
        known = topic.name if named else asked.topic_name(topic.topic_id)
        if known is None or _may_ask_to_delete(asked, known):
            topics.append(topic)
        else:
            shown = (
                known if named or asked.access.may(AclOperation.DESCRIBE, TOPIC, known) else None
            )
            refused.append(
                DeletableTopicResult(name=shown, topic_id=topic.topic_id, error_code=FAILED)
            )
    if not refused:
        return None
    for result in refused:
        result.error_message = "Topic authorization failed."
    asked.narrow("topic_names", names)
    asked.narrow("topics", topics)
    if not names and not topics:
        return DeleteTopicsResponse(responses=refused)

    def complete(response: DeleteTopicsResponse) -> None:
        response.responses = [*response.responses, *refused]

    return complete


def _may_ask_to_delete(asked: Asked, name: str) -> bool:
    """Who may describe a topic that is not there is told so, though it could not delete it."""
    if asked.access.may(AclOperation.DELETE, TOPIC, name):
        return True
    missing = name not in asked.services.image.topics_by_name
    return missing and asked.access.may(AclOperation.DESCRIBE, TOPIC, name)


def settings_part(operation: AclOperation) -> Callable[[Asked, Any], ErrorCode]:
    """The settings of a resource: those of brokers and of clients' metrics are the cluster's. A
    kind that nobody knows is left to the handler, which says so.
    """

    def judge_part(asked: Asked, part: Any) -> ErrorCode:
        if part.resource_type not in KINDS:
            return ErrorCode.NONE
        if part.resource_type == ResourceKind.TOPIC:
            return judge(asked, operation, TOPIC, part.resource_name)
        if part.resource_type == ResourceKind.GROUP:
            return judge(asked, operation, ResourceType.GROUP, part.resource_name)
        return judge(asked, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    return judge_part

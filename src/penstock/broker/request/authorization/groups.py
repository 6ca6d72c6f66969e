"""Rules about groups and transactions that are more than one question a part."""

from typing import Any

from penstock.broker.request.authorization.rule import (
    MESSAGES,
    Asked,
    Complete,
    judge,
    name_part,
    named,
    take_refused,
    topic_part,
    whole,
)
from penstock.model.error import ErrorCode, RequestError
from penstock.model.offset import NO_OFFSET
from penstock.security.acl.words import AclOperation, ResourceType
from penstock.wire.definition import Message
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from penstock.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from penstock.wire.messages.describe_transactions import DescribeTransactionsResponse
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.list_groups import ListGroupsResponse
from penstock.wire.messages.list_transactions import ListTransactionsResponse
from penstock.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from penstock.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MANY_KEYS_FROM = 4  # of FindCoordinator
MANY_GROUPS_FROM = 8  # of OffsetFetch
OF_OTHER_NODES_FROM = 4  # of AddPartitionsToTxn
KEYS = {0: GROUP, 1: TRANSACTIONAL_ID}


def find_coordinator(asked: Asked) -> Complete | Message | None:
    request: FindCoordinatorRequest = asked.request
    resource_type = KEYS.get(request.key_type)
    if resource_type is None:
        return None  # refused by its handler
    if asked.version < MANY_KEYS_FROM:
        code = judge(asked, AclOperation.DESCRIBE, resource_type, request.key)
        if code is not ErrorCode.NONE:
            raise RequestError(code, MESSAGES[code])
        return None
    return take_refused(
        asked, "coordinator_keys", "coordinators", name_part(AclOperation.DESCRIBE, resource_type)
    )


def list_groups(asked: Asked, response: ListGroupsResponse) -> None:
    """Who may describe the cluster sees all groups."""
    if not asked.access.may_cluster(AclOperation.DESCRIBE):
        response.groups = [
            group
            for group in response.groups
            if asked.access.may(AclOperation.DESCRIBE, GROUP, group.group_id)
        ]


def operations_on_groups(asked: Asked, response: Any) -> None:
    if asked.request.include_authorized_operations:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = asked.access.operations(GROUP, group.group_id)


def consumer_groups(asked: Asked, response: ConsumerGroupDescribeResponse) -> None:
    """A group shows its topics, and so is shown to those who may describe all of them."""
    operations_on_groups(asked, response)
    for index, group in enumerate(response.groups):
        names = {
            topic.topic_name
            for member in group.members
            for assignment in (member.assignment, member.target_assignment)
            for topic in assignment.topic_partitions
        }
        names.update(name for member in group.members for name in member.subscribed_topic_names)
        if not all(asked.access.may(AclOperation.DESCRIBE, TOPIC, name) for name in names):
            response.groups[index] = DescribedGroup(
                group_id=group.group_id,
                error_code=FAILED,
                error_message="The group has topics that the client is not authorized to describe.",
            )


def subscribed_topics(asked: Asked) -> ErrorCode:
    names = asked.request.subscribed_topic_names or ()
    for name in names:
        code = judge(asked, AclOperation.DESCRIBE, TOPIC, name)
        if code is not ErrorCode.NONE:
            return code
    return ErrorCode.NONE


def offset_delete(asked: Asked) -> Complete | None:
    """The group is asked for even if no topic is left: what is wrong with it comes first."""
    whole(named(AclOperation.DELETE, GROUP, "group_id"))(asked)
    request: OffsetDeleteRequest = asked.request
    kept, refused = [], []
    for topic in request.topics:
        if asked.access.may(AclOperation.READ, TOPIC, topic.name):
            kept.append(topic)
            continue
        results = [
            OffsetDeleteResponsePartition(
                partition_index=partition.partition_index, error_code=FAILED
            )
            for partition in topic.partitions
        ]
        refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
    if not refused:
        return None
    asked.narrow("topics", kept)

    def complete(response: OffsetDeleteResponse) -> None:
        if response.error_code == ErrorCode.NONE:
            response.topics = [*response.topics, *refused]

    return complete


def offset_fetch(asked: Asked) -> Complete | Message | None:
    """The group, and each topic. Asked for all topics, it tells those that the client may see."""
    if asked.version < MANY_GROUPS_FROM:
        return _offsets_of_one_group(asked)
    refused_groups = take_refused(
        asked,
        "groups",
        "groups",
        lambda asked, group: judge(asked, AclOperation.DESCRIBE, GROUP, group.group_id),
    )
    if isinstance(refused_groups, Message):
        return refused_groups
    request: OffsetFetchRequest = asked.request
    refused: dict[str, list[OffsetFetchResponseTopics]] = {}
    sees_all: set[str] = set()
    for group in request.groups:
        if group.topics is None:
            sees_all.add(group.group_id)
            continue
        kept = []
        for topic in group.topics:
            if topic_part(AclOperation.DESCRIBE)(asked, topic) is ErrorCode.NONE:
                kept.append(topic)
            else:
                refused.setdefault(group.group_id, []).append(
                    OffsetFetchResponseTopics(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partitions=[_no_offset(index) for index in topic.partition_indexes],
                    )
                )
        group.topics = kept

    def complete(response: OffsetFetchResponse) -> None:
        for group in response.groups:
            if group.error_code != ErrorCode.NONE:
                continue
            if group.group_id in sees_all:
                group.topics = [
                    topic
                    for topic in group.topics
                    if topic_part(AclOperation.DESCRIBE)(asked, topic) is ErrorCode.NONE
                ]
            group.topics = [*group.topics, *refused.pop(group.group_id, ())]
        if refused_groups is not None:
            refused_groups(response)

    return complete


def _offsets_of_one_group(asked: Asked) -> Complete:
    request: OffsetFetchRequest = asked.request
    code = judge(asked, AclOperation.DESCRIBE, GROUP, request.group_id)
    if code is not ErrorCode.NONE:
        raise RequestError(code, MESSAGES[code])
    refused: list[OffsetFetchResponseTopic] = []
    sees_all = request.topics is None
    if request.topics is not None:
        kept = []
        for topic in request.topics:
            if asked.access.may(AclOperation.DESCRIBE, TOPIC, topic.name):
                kept.append(topic)
            else:
                refused.append(
                    OffsetFetchResponseTopic(
                        name=topic.name,
                        partitions=[
                            OffsetFetchResponsePartition(
                                partition_index=index,
                                committed_offset=NO_OFFSET,
                                metadata="",
                                error_code=FAILED,
                            )
                            for index in topic.partition_indexes
                        ],
                    )
                )
        asked.narrow("topics", kept)

    def complete(response: OffsetFetchResponse) -> None:
        if sees_all:
            response.topics = [
                topic
                for topic in response.topics
                if asked.access.may(AclOperation.DESCRIBE, TOPIC, topic.name)
            ]
        response.topics = [*response.topics, *refused]

    return complete


def _no_offset(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=FAILED
    )


def init_producer_id(asked: Asked) -> ErrorCode:
    """An idempotent producer must be allowed to write somewhere (KIP-679). One that joins a
    two-phase commit holds back readers for as long as it likes, which is a right of its own.
    """
    request: InitProducerIdRequest = asked.request
    access = asked.access
    if request.transactional_id is None:
        if access.may_cluster(AclOperation.IDEMPOTENT_WRITE) or access.may_somewhere(
            AclOperation.WRITE, TOPIC
        ):
            return ErrorCode.NONE
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    code = judge(asked, AclOperation.WRITE, TRANSACTIONAL_ID, request.transactional_id)
    if code is ErrorCode.NONE and request.enable2_pc:
        operation = AclOperation.TWO_PHASE_COMMIT
        return judge(asked, operation, TRANSACTIONAL_ID, request.transactional_id)
    return code


def transaction_of_produce(asked: Asked) -> ErrorCode:
    name = asked.request.transactional_id
    if name is None:
        return ErrorCode.NONE
    return judge(asked, AclOperation.WRITE, TRANSACTIONAL_ID, name)


def add_partitions_to_txn(asked: Asked) -> Message | None:
    """Later versions are sent by other nodes, which have checked what their clients may do. One
    partition that the client may not write to keeps all others out of the transaction.
    """
    request: AddPartitionsToTxnRequest = asked.request
    if asked.version >= OF_OTHER_NODES_FROM:
        if not asked.access.may_cluster(AclOperation.CLUSTER_ACTION):
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            raise RequestError(code, MESSAGES[code])
        return None
    name = request.v3_and_below_transactional_id
    whole(lambda asked: judge(asked, AclOperation.WRITE, TRANSACTIONAL_ID, name))(asked)
    codes = {
        topic.name: judge(asked, AclOperation.WRITE, TOPIC, topic.name)
        for topic in request.v3_and_below_topics
    }
    if not any(codes.values()):
        return None
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index,
                        partition_error_code=codes[topic.name] or ErrorCode.OPERATION_NOT_ATTEMPTED,
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


def topics_of_transactions(asked: Asked, response: DescribeTransactionsResponse) -> None:
    for state in response.transaction_states:
        state.topics = [
            topic
            for topic in state.topics
            if asked.access.may(AclOperation.DESCRIBE, TOPIC, topic.topic)
        ]


def list_transactions(asked: Asked, response: ListTransactionsResponse) -> None:
    response.transaction_states = [
        state
        for state in response.transaction_states
        if asked.access.may(AclOperation.DESCRIBE, TRANSACTIONAL_ID, state.transactional_id)
    ]

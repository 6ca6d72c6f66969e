"""DescribeTopicPartitions: topics in the order of their names, in pages of bounded size."""

from penstock.broker.request.api_table import Api
from penstock.broker.request.authorized_operations import TOPIC_OPERATIONS
from penstock.broker.request.context import RequestContext
from penstock.broker.request.partition_view import view_partition
from penstock.broker.request.services import Services
from penstock.metadata.image.topic import TopicImage
from penstock.model.error import ErrorCode, RequestError
from penstock.model.topic_name import INTERNAL_TOPICS, topic_name_error
from penstock.wire.api import ApiKey
from penstock.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle(
    services: Services, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    image = services.image
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}",
        )
    names = {topic.name for topic in request.topics} or image.topics_by_name.keys()
    wanted = sorted(name for name in names if cursor is None or name >= cursor.topic_name)
    asked_max = min(
        request.response_partition_limit, services.settings.max_request_partition_size_limit
    )
    left = max(asked_max, 1)
    reply = DescribeTopicPartitionsResponse()
    for name in wanted:
        topic = image.topics_by_name.get(name)
        if left == 0:
            reply.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        if topic is None:
            reply.topics.append(_missing(name))
            continue
        resumed = cursor is not None and cursor.topic_name == name
        start = cursor.partition_index if cursor is not None and resumed else 0
        end = min(start + left, len(topic.partitions))
        reply.topics.append(_topic(services, topic, range(start, end), context.listener))
        left -= max(end - start, 0)
        if end < len(topic.partitions):
            reply.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    return reply


def refuse(
    request: DescribeTopicPartitionsRequest, code: ErrorCode, message: str | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name)
            for topic in request.topics
        ]
    )


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    known = topic_name_error(name) is None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if known
        else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _topic(
    services: Services, topic: TopicImage, indexes: range, listener: str
) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for index in indexes:
        partition = topic.partitions[index]
        view = view_partition(
            services.image,
            partition,
            listener,
            leader_offline=services.partitions.is_offline(topic.name, index),
        )
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=view.error_code,
                partition_index=index,
                leader_id=view.leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                eligible_leader_replicas=list(partition.elr),
                last_known_elr=list(partition.last_known_elr),
                offline_replicas=view.offline_replicas,
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


API = Api(
    key=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    versions=DescribeTopicPartitionsRequest.VERSIONS,
    request=DescribeTopicPartitionsRequest,
    handle=handle,
    refuse=refuse,
)

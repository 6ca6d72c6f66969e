"""Metadata: the brokers and topics of the cluster, and where each partition's leader is.

A topic that does not exist is created on the way, when the setting and the request allow it. From
version 12 on a topic may be asked for by its id. Then the id alone decides: Java sends the name ""
with it, other clients null.
"""

from collections.abc import Awaitable, Iterable, Sequence

from penstock.broker.request.admin_broker import admin_broker
from penstock.broker.request.api_table import Api
from penstock.broker.request.authorized_operations import (
    CLUSTER_OPERATIONS,
    NOT_ASKED_FOR,
    TOPIC_OPERATIONS,
)
from penstock.broker.request.context import RequestContext
from penstock.broker.request.partition_view import view_partition
from penstock.broker.request.services import Services
from penstock.broker.request.yielding import Steps, by_turns, go_on
from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import TopicImage
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import METADATA_TOPIC, NO_TOPIC_ID, TopicId
from penstock.model.topic_name import INTERNAL_TOPICS, topic_name_error
from penstock.wire.api import ApiKey
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TOPIC_IDS_FROM_VERSION = 12
LISTENER_NOT_FOUND_FROM_VERSION = 6
AUTO_CREATION_WAIT_MS_MAX = 10_000


def handle(
    services: Services, request: MetadataRequest, context: RequestContext
) -> MetadataResponse | Awaitable[MetadataResponse]:
    version = context.header.api_version
    names_none = version == 0 and context.access is None  # else the topics it may see are named
    if request.topics is None or (names_none and not request.topics):
        return by_turns(
            _response(services, request, context, _all_topics(services.image), {}),
            services.long_answers,
        )
    if version < TOPIC_IDS_FROM_VERSION:
        for topic in request.topics:
            if topic.name is None or topic.topic_id != NO_TOPIC_ID:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST,
                    f"Topic IDs are not supported in requests for version {version}",
                )
    missing = _to_create(services, request)
    if missing:
        return _create_first(services, request, context, missing)
    return by_turns(
        _response(services, request, context, request.topics, {}), services.long_answers
    )


def refuse(request: MetadataRequest, code: ErrorCode, message: str | None) -> MetadataResponse:
    return MetadataResponse(
        error_code=code,
        topics=[
            MetadataResponseTopic(
                error_code=code, name=topic.name or "", topic_id=topic.topic_id, partitions=[]
            )
            for topic in request.topics or ()
        ],
    )


async def _create_first(
    services: Services, request: MetadataRequest, context: RequestContext, names: Sequence[str]
) -> MetadataResponse:
    create = CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in names
        ]
    )
    errors: dict[str, int] = {}
    try:
        created = await services.controller.ask(
            create, wait_ms_max=AUTO_CREATION_WAIT_MS_MAX, requester=context.requester
        )
    except RequestError:
        # The client asks again; the topic may be there by then.
        errors = dict.fromkeys(names, ErrorCode.LEADER_NOT_AVAILABLE)
    else:
        for result in created.topics:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                errors[result.name] = result.error_code
    return await go_on(
        _response(services, request, context, request.topics or (), errors), services.long_answers
    )


def _to_create(services: Services, request: MetadataRequest) -> list[str]:
    if not (request.allow_auto_topic_creation and services.settings.auto_create_topics_enable):
        return []
    missing = [
        topic.name
        for topic in request.topics or ()
        if topic.name is not None
        and topic.topic_id == NO_TOPIC_ID
        and topic.name not in services.image.topics_by_name
        and topic.name not in INTERNAL_TOPICS
        and topic.name != METADATA_TOPIC
        and topic_name_error(topic.name) is None
    ]
    return list(dict.fromkeys(missing))


def _all_topics(image: Image) -> Sequence[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in image.topics_by_name]


def _response(
    services: Services,
    request: MetadataRequest,
    context: RequestContext,
    topics: Sequence[MetadataRequestTopic],
    errors: dict[str, int],
) -> Steps[MetadataResponse]:
    image = services.image
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED_FOR
    brokers, unfenced = [], []
    for broker in image.brokers.values():
        endpoint = broker.endpoint(context.listener)
        if endpoint is not None and services.listed_brokers.has(broker, now_ms=context.received_ms):
            brokers.append(
                MetadataResponseBroker(
                    node_id=broker.node_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=broker.rack,
                )
            )
            if not broker.fenced:
                unfenced.append(broker.node_id)
    found = []
    for topic in _each_once(topics):
        found.append((yield from _topic(services, image, topic, context, errors, operations)))
        yield
    return MetadataResponse(
        brokers=brokers,
        cluster_id=services.cluster_id,
        controller_id=admin_broker(services.node_id, unfenced),
        topics=found,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NOT_ASKED_FOR,
    )


def _each_once(topics: Sequence[MetadataRequestTopic]) -> Iterable[MetadataRequestTopic]:
    """A topic named many times would make a reply of any size out of a small request."""
    return {
        topic.name if topic.topic_id == NO_TOPIC_ID else topic.topic_id: topic for topic in topics
    }.values()


def _topic(
    services: Services,
    image: Image,
    asked: MetadataRequestTopic,
    context: RequestContext,
    errors: dict[str, int],
    operations: int,
) -> Steps[MetadataResponseTopic]:
    name = asked.name if asked.topic_id == NO_TOPIC_ID else None
    if name is None:
        found = image.topics_by_id.get(TopicId(asked.topic_id))
        error: int = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        found = image.topics_by_name.get(name)
        error = errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic_name_error(name) is not None:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
    if found is None:
        return MetadataResponseTopic(
            error_code=error,
            name=name,
            topic_id=asked.topic_id,
            is_internal=name in INTERNAL_TOPICS,
            partitions=[],
        )
    return MetadataResponseTopic(
        name=found.name,
        topic_id=found.topic_id,
        is_internal=found.name in INTERNAL_TOPICS,
        partitions=(yield from _partitions(services, image, found, context)),
        topic_authorized_operations=operations,
    )


def _partitions(
    services: Services, image: Image, topic: TopicImage, context: RequestContext
) -> Steps[list[MetadataResponsePartition]]:
    partitions = []
    lost = services.lost_nodes
    for index, partition in enumerate(topic.partitions):
        leader = partition.leader
        view = view_partition(
            image,
            partition,
            context.listener,
            leader_offline=services.partitions.is_offline(topic.name, index),
            leader_lost=lost is not None and leader is not None and lost.is_lost(leader),
        )
        code = view.error_code
        knows_listeners = context.header.api_version >= LISTENER_NOT_FOUND_FROM_VERSION
        if code == ErrorCode.LISTENER_NOT_FOUND and not knows_listeners:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        partitions.append(
            MetadataResponsePartition(
                error_code=code,
                partition_index=index,
                leader_id=view.leader_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.isr),
                offline_replicas=view.offline_replicas,
            )
        )
        yield
    return partitions


API = Api(
    key=ApiKey.METADATA,
    versions=MetadataRequest.VERSIONS,
    request=MetadataRequest,
    handle=handle,
    refuse=refuse,
)

"""FindCoordinator: the broker that looks after a group, or a transactional id.

The topic that coordinators keep their journal in is made on the way, when the first client asks.
"""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.broker.request.yielding import Steps, by_turns, go_on
from penstock.groups.partitioning import OFFSETS_TOPIC, partition_of
from penstock.metadata.image.broker import Endpoint
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.wire.api import ApiKey
from penstock.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

TOPICS = {0: OFFSETS_TOPIC, 1: TRANSACTION_TOPIC}  # by the type of the key: a group, a transaction
MANY_KEYS_FROM = 4
NO_NODE = -1
NO_PORT = -1


def handle(
    services: Services, request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    topic = TOPICS.get(request.key_type)
    if topic is None:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"Unknown coordinator type {request.key_type}"
        )
    if topic not in services.image.topics_by_name:
        return _create_first(services, request, context, topic)
    return by_turns(_response(services, request, context, topic), services.long_answers)


def refuse(
    request: FindCoordinatorRequest, code: ErrorCode, message: str | None
) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=code,
        error_message=message,
        node_id=NO_NODE,
        host="",
        port=NO_PORT,
        coordinators=[_none(key, code, message) for key in request.coordinator_keys],
    )


async def _create_first(
    services: Services, request: FindCoordinatorRequest, context: RequestContext, topic: str
) -> FindCoordinatorResponse:
    if topic == OFFSETS_TOPIC:
        await services.groups.create_topic()
    else:
        await services.transactions.create_topic()
    return await go_on(_response(services, request, context, topic), services.long_answers)


def _response(
    services: Services, request: FindCoordinatorRequest, context: RequestContext, topic: str
) -> Steps[FindCoordinatorResponse]:
    if context.header.api_version >= MANY_KEYS_FROM:
        coordinators = []
        for key in request.coordinator_keys:
            coordinators.append(_coordinator(services, topic, key, context.listener))
            yield
        return FindCoordinatorResponse(coordinators=coordinators)
    one = _coordinator(services, topic, request.key, context.listener)
    return FindCoordinatorResponse(
        error_code=one.error_code,
        error_message="NONE" if one.error_code == ErrorCode.NONE else one.error_message,
        node_id=one.node_id,
        host=one.host,
        port=one.port,
    )


def _coordinator(services: Services, topic: str, key: str, listener: str) -> Coordinator:
    found = _leader(services, topic, key, listener)
    if found is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.")
    node_id, endpoint = found
    return Coordinator(
        key=key,
        node_id=node_id,
        host=endpoint.host,
        port=endpoint.port,
        error_message="",
    )


def _leader(
    services: Services, topic_name: str, key: str, listener: str
) -> tuple[NodeId, Endpoint] | None:
    """The broker that leads the key's partition, where clients of this listener reach it. None
    when that is this one and the partition is offline here: nobody looks after the key.
    """
    image = services.image
    topic = image.topics_by_name.get(topic_name)
    if topic is None:
        return None
    index = partition_of(key, partition_count=len(topic.partitions))
    leader = topic.partitions[index].leader
    if leader == services.node_id and services.partitions.is_offline(topic_name, index):
        return None
    broker = None if leader is None else image.brokers.get(leader)
    if broker is None or broker.fenced:
        return None
    endpoint = broker.endpoint(listener)
    return None if endpoint is None else (broker.node_id, endpoint)


def _none(key: str, code: ErrorCode, message: str | None) -> Coordinator:
    return Coordinator(
        key=key, node_id=NO_NODE, host="", port=NO_PORT, error_code=code, error_message=message
    )


API = Api(
    key=ApiKey.FIND_COORDINATOR,
    versions=FindCoordinatorRequest.VERSIONS,
    request=FindCoordinatorRequest,
    handle=handle,
    refuse=refuse,
)

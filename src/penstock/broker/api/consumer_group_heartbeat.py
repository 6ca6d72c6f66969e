"""ConsumerGroupHeartbeat: the one request by which members of a consumer group join, stay and
leave.
"""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(
    services: Services, request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    reply: ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]
    reply = services.groups.ask(request.group_id, request, context)
    return reply


def refuse(
    request: ConsumerGroupHeartbeatRequest, code: ErrorCode, message: str | None
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


API = Api(
    key=ApiKey.CONSUMER_GROUP_HEARTBEAT,
    versions=ConsumerGroupHeartbeatRequest.VERSIONS,
    request=ConsumerGroupHeartbeatRequest,
    handle=handle,
    refuse=refuse,
)

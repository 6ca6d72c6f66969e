"""BrokerHeartbeat: a broker keeps its session, and asks to be unfenced or to shut down."""

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import ControllerServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


async def handle(
    services: ControllerServices, request: BrokerHeartbeatRequest, context: RequestContext
) -> BrokerHeartbeatResponse:
    reply: BrokerHeartbeatResponse = await services.local.ask(request, connection=context.peer)
    reply.metadata_offset = services.local.image.offset
    return reply


def refuse(
    request: BrokerHeartbeatRequest, code: ErrorCode, message: str | None
) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(error_code=code)


API = Api(
    key=ApiKey.BROKER_HEARTBEAT,
    versions=BrokerHeartbeatRequest.VERSIONS,
    request=BrokerHeartbeatRequest,
    handle=handle,
    refuse=refuse,
)

"""UnregisterBroker: a broker that will not come back is forgotten."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def handle(
    services: NodeServices, request: UnregisterBrokerRequest, context: RequestContext
) -> Awaitable[UnregisterBrokerResponse]:
    return services.controller.ask(request, requester=context.requester)


def refuse(
    request: UnregisterBrokerRequest, code: ErrorCode, message: str | None
) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=code, error_message=message)


API = Api(
    key=ApiKey.UNREGISTER_BROKER,
    versions=UnregisterBrokerRequest.VERSIONS,
    request=UnregisterBrokerRequest,
    handle=handle,
    refuse=refuse,
)

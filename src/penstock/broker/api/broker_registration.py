"""BrokerRegistration: a broker that has started joins the cluster."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import ControllerServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)


def handle(
    services: ControllerServices, request: BrokerRegistrationRequest, context: RequestContext
) -> Awaitable[BrokerRegistrationResponse]:
    return services.local.ask(request, connection=context.peer)


def refuse(
    request: BrokerRegistrationRequest, code: ErrorCode, message: str | None
) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=code)


API = Api(
    key=ApiKey.BROKER_REGISTRATION,
    versions=BrokerRegistrationRequest.VERSIONS,
    request=BrokerRegistrationRequest,
    handle=handle,
    refuse=refuse,
)

"""ControllerRegistration: a controller tells where it listens."""

from collections.abc import Awaitable

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import ControllerServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


def handle(
    services: ControllerServices, request: ControllerRegistrationRequest, context: RequestContext
) -> Awaitable[ControllerRegistrationResponse]:
    return services.local.ask(request, connection=context.peer)


def refuse(
    request: ControllerRegistrationRequest, code: ErrorCode, message: str | None
) -> ControllerRegistrationResponse:
    return ControllerRegistrationResponse(error_code=code, error_message=message)


API = Api(
    key=ApiKey.CONTROLLER_REGISTRATION,
    versions=ControllerRegistrationRequest.VERSIONS,
    request=ControllerRegistrationRequest,
    handle=handle,
    refuse=refuse,
)

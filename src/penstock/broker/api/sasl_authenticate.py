"""SaslAuthenticate outside of a log-in; see `sasl_handshake`."""

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


def handle(
    services: NodeServices, request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received outside of a log-in",
    )


def refuse(
    request: SaslAuthenticateRequest, code: ErrorCode, message: str | None
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=message)


API = Api(
    key=ApiKey.SASL_AUTHENTICATE,
    versions=SaslAuthenticateRequest.VERSIONS,
    request=SaslAuthenticateRequest,
    handle=handle,
    refuse=refuse,
)

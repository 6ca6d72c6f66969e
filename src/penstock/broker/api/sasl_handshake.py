"""SaslHandshake outside of a log-in: on a listener without SASL, or by a client that is logged in.

Log-ins are answered before requests are dispatched, in `broker/network/authentication`, and those
of sessions that end in `broker/network/reauthentication`.
"""

from penstock.broker.request.api_table import Api
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey
from penstock.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(
    services: NodeServices, request: SaslHandshakeRequest, context: RequestContext
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def refuse(
    request: SaslHandshakeRequest, code: ErrorCode, message: str | None
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code)


API = Api(
    key=ApiKey.SASL_HANDSHAKE,
    versions=SaslHandshakeRequest.VERSIONS,
    request=SaslHandshakeRequest,
    handle=handle,
    refuse=refuse,
)

"""Who may ask for delegation tokens at all (KIP-48), whatever its rights are.

A client that nobody has authenticated may not, and neither may one that came in by a token: whoever
is given a token could otherwise go on for ever with tokens of its own.
"""

from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import NodeServices
from penstock.model.error import ErrorCode, RequestError
from penstock.model.settings.listener import SecurityProtocol
from penstock.security.principal import ANONYMOUS


def check_token_request(services: NodeServices, context: RequestContext) -> None:
    """RequestError for a client that may not ask. The listener of one whose request was forwarded
    is known to the broker that did so.
    """
    principal = context.principal
    allowed = bool(principal.name) and not principal.token_authenticated
    if not context.is_forwarded:
        protocol = services.settings.protocol_of(context.listener)
        is_authenticated = protocol.has_sasl or principal != ANONYMOUS
        allowed = allowed and is_authenticated and protocol is not SecurityProtocol.PLAINTEXT
    if not allowed:
        raise RequestError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)

"""SaslAuthenticate: one token of the exchange each way.

Version 1 says how long the session lasts before the client must authenticate again (KIP-368).
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, int16, int64, octets, prose


class SaslAuthenticateRequest(
    Message, key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible_from=2
):
    auth_bytes: bytes = octets()


class SaslAuthenticateResponse(
    Message, key=ApiKey.SASL_AUTHENTICATE, versions="0-2", flexible_from=2
):
    error_code: int = int16()
    error_message: str | None = prose()
    auth_bytes: bytes = octets()
    session_lifetime_ms: int = int64("1+")  # 0: it does not end

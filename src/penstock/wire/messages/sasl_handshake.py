"""SaslHandshake: the client names its mechanism.

After version 0 tokens follow as bare frames, without a header; after version 1 in SaslAuthenticate.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, array, int16, string


class SaslHandshakeRequest(Message, key=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    mechanism: str = string()


class SaslHandshakeResponse(Message, key=ApiKey.SASL_HANDSHAKE, versions="0-1"):
    error_code: int = int16()
    mechanisms: list[str] = array(string())  # those that the listener takes

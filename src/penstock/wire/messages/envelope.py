"""Envelope: a broker forwards a client's request to the active controller (KIP-590).

Both carry a whole message with its header, as it would be in a frame of its own. The principal is
an embedded message (`wire/embedded`): DefaultPrincipalData, unless a plugin of Kafka's says
otherwise.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, boolean, int16, nullable, octets, string


class DefaultPrincipalData(Message, versions="0", flexible_from=0):
    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()


class EnvelopeRequest(Message, key=ApiKey.ENVELOPE, versions="0", flexible_from=0):
    request_data: bytes = octets()
    request_principal: bytes | None = nullable(octets(), default=None)
    client_host_address: bytes = octets()  # 4 or 16 bytes


class EnvelopeResponse(Message, key=ApiKey.ENVELOPE, versions="0", flexible_from=0):
    response_data: bytes | None = nullable(octets(), default=None)
    error_code: int = int16()

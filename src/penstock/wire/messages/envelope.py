"""Envelope: a broker forwards a client's request to the active controller (KIP-590).

Both carry a whole message with its header, as it would be in a frame of its own.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import Message, int16, nullable, octets


class EnvelopeRequest(Message, key=ApiKey.ENVELOPE, versions="0", flexible_from=0):
    request_data: bytes = octets()
    request_principal: bytes | None = nullable(octets(), default=None)
    client_host_address: bytes = octets()  # 4 or 16 bytes


class EnvelopeResponse(Message, key=ApiKey.ENVELOPE, versions="0", flexible_from=0):
    response_data: bytes | None = nullable(octets(), default=None)
    error_code: int = int16()

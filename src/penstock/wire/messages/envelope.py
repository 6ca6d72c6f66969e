"""Envelope: a broker forwards a client's request to the active controller (KIP-590).

Both carry a whole message with its header, as it would be in a frame of its own. The principal is
an embedded message (`wire/embedded`): DefaultPrincipalData, unless a plugin of Kafka's says
otherwise. Tagged fields of ours, which Apache Kafka passes over, say in which epoch the controller
is to be that is asked, whether a node asks for itself, and how far the controller's metadata was
when it replied.
"""

from penstock.wire.api import ApiKey
from penstock.wire.definition import (
    OWN_TAGS_FROM,
    Message,
    boolean,
    int16,
    int32,
    int64,
    nullable,
    octets,
    string,
    tagged,
)


class DefaultPrincipalData(Message, versions="0", flexible_from=0):
    type: str = string()
    name: str = string()
    token_authenticated: bool = boolean()


class EnvelopeRequest(Message, key=ApiKey.ENVELOPE, versions="0", flexible_from=0):
    request_data: bytes = octets()
    request_principal: bytes | None = nullable(octets(), default=None)
    client_host_address: bytes = octets()  # 4 or 16 bytes
    controller_epoch: int = tagged(OWN_TAGS_FROM, int32("0+", default=-1))
    from_node: bool = tagged(OWN_TAGS_FROM + 1, boolean("0+"))  # asked for no client


class EnvelopeResponse(Message, key=ApiKey.ENVELOPE, versions="0", flexible_from=0):
    response_data: bytes | None = nullable(octets(), default=None)
    error_code: int = int16()
    metadata_offset: int = tagged(OWN_TAGS_FROM, int64("0+", default=-1))

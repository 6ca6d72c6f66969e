"""Requests and replies as they stand on the wire: size, header, message.

    request   size int32 | api key int16 | version int16 | correlation id int32 | client id string
              | tagged fields, when flexible | message
    reply     size int32 | correlation id int32 | tagged fields, when flexible | message

The size counts what follows it. Replies to ApiVersions never have tagged fields in their header: a
client that does not know yet what the broker speaks must be able to read them. The client id is an
old nullable string even where the rest of the header is flexible.
"""

import struct
from typing import Final, TypeVar

from penstock.model.lazy_dataclass import dataclass
from penstock.wire.api import ApiKey, is_flexible
from penstock.wire.codec import Part, byte_count, decode_exact, encode_parts, join_pieces, pieces_of
from penstock.wire.definition import Message
from penstock.wire.errors import MalformedMessage
from penstock.wire.primitive import TEXT_BYTES_SAFE, outgrows, read_uvarint, skip_tagged_fields

AnyMessage = TypeVar("AnyMessage", bound=Message)

_REQUEST: Final = struct.Struct(">hhih")
_UNPACK_REQUEST: Final = _REQUEST.unpack_from  # at hand: to look it up costs as much as to call it
_REQUEST_BYTES: Final = _REQUEST.size
_SIZE: Final = struct.Struct(">i")
_REPLY: Final = struct.Struct(">ii")
_FLEXIBLE_REPLY: Final = struct.Struct(">iix")
_CORRELATION_ID: Final = struct.Struct(">i")
_API_VERSIONS: Final = int(ApiKey.API_VERSIONS)


@dataclass(slots=True, init=False)
class RequestHeader:
    """What every request says of itself. Built per request: see `log/reading` on its `__init__`."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None

    def __init__(
        self, api_key: int, api_version: int, correlation_id: int, client_id: str | None = None
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """The header of a request, and where in the frame its message begins.

    An API or version nobody knows is no error here: its header is read as far as all headers agree,
    so that whoever asked can be answered.
    """
    try:
        api_key, version, correlation_id, length = _UNPACK_REQUEST(frame, 0)
        at = _REQUEST_BYTES
        client_id = None
        if length >= 0:
            stop = at + length
            if stop > len(frame):
                raise MalformedMessage(f"a client id of {length} bytes is cut off")
            client_id = frame[at:stop].tobytes().decode("utf-8", "replace")
            if length > TEXT_BYTES_SAFE and outgrows(client_id):
                raise MalformedMessage(f"a client id of {length} bytes that are not UTF-8")
            at = stop
        elif length != -1:
            raise MalformedMessage(f"a client id of {length} bytes")
        if is_flexible(api_key, version):
            at = _skip_tags(frame, at)
    except (struct.error, IndexError) as error:
        raise MalformedMessage("a request header is cut off") from error
    return RequestHeader(api_key, version, correlation_id, client_id), at


def encode_request(
    message: Message, *, version: int, correlation_id: int, client_id: str | None
) -> list[Part]:
    """A request with its size and header, in as few buffers as its records allow."""
    name = None if client_id is None else client_id.encode()
    length = -1 if name is None else len(name)
    head = _REQUEST.pack(message.API_KEY, version, correlation_id, length) + (name or b"")
    if is_flexible(message.API_KEY, version):
        head += b"\x00"
    parts = encode_parts(message, version)
    return _with_head(_SIZE.pack(len(head) + byte_count(parts)) + head, parts)


def encode_response(correlation_id: int, message: Message, version: int) -> list[Part]:
    """A reply with its size and header, in as few buffers as its records allow."""
    pieces, splices = pieces_of(message, version)
    flexible = _tags_in_reply_header(message, version)
    head, head_bytes = (_FLEXIBLE_REPLY, 5) if flexible else (_REPLY, 4)
    if not splices:
        body = b"".join(pieces)
        return [head.pack(len(body) + head_bytes, correlation_id) + body]
    parts = join_pieces(pieces, splices)
    return _with_head(head.pack(byte_count(parts) + head_bytes, correlation_id), parts)


def decode_correlation_id(frame: memoryview) -> int:
    """Which request a reply answers: all a client can know before it recalls what it asked."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame, 0)
    except struct.error as error:
        raise MalformedMessage("a reply header is cut off") from error
    assert isinstance(correlation_id, int)
    return correlation_id


def decode_response(cls: type[AnyMessage], version: int, frame: memoryview) -> AnyMessage:
    """The message of a reply, whose correlation id the client has looked at already."""
    at = _CORRELATION_ID.size
    if _tags_in_reply_header(cls, version):
        try:
            at = _skip_tags(frame, at)
        except IndexError as error:
            raise MalformedMessage("a reply header is cut off") from error
    return decode_exact(cls, version, frame, at)


def _tags_in_reply_header(message: Message | type[Message], version: int) -> bool:
    flexible_from = message.FLEXIBLE_FROM
    if flexible_from is None or version < flexible_from:
        return False
    return message.API_KEY != _API_VERSIONS


def _skip_tags(frame: memoryview, at: int) -> int:
    count, at = read_uvarint(frame, at)
    return skip_tagged_fields(frame, at, count)


def _with_head(head: bytes, parts: list[Part]) -> list[Part]:
    """Joins the head to the first part, which is small unless the message begins with records."""
    first = parts[0] if parts else b""
    if isinstance(first, bytes):
        parts[:1] = [head + first]
    else:
        parts.insert(0, head)
    return parts

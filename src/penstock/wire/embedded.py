"""Messages that travel inside others as bytes: a version, then the message in that version.

Peers may write a newer version than we know. New versions only add fields at the end, so what we
know is read as the newest version that we have, and the rest is passed over.
"""

from typing import TypeVar

from penstock.wire.codec import decode, encode
from penstock.wire.definition import Message
from penstock.wire.errors import MalformedMessage

AnyMessage = TypeVar("AnyMessage", bound=Message)

VERSION_BYTES = 2


def read_embedded(
    cls: type[AnyMessage], data: bytes | memoryview, *, version_max: int | None = None
) -> AnyMessage:
    """The message in these bytes. MalformedMessage whatever else they are. Fields that versions
    after `version_max` added are left out.
    """
    known_max = cls.VERSIONS.max if version_max is None else version_max
    view = memoryview(data)
    if len(view) < VERSION_BYTES:
        raise MalformedMessage(f"{cls.__name__} is cut off")
    version = int.from_bytes(view[:VERSION_BYTES], "big", signed=True)
    if version < cls.VERSIONS.min:
        raise MalformedMessage(f"{cls.__name__} has the version {version}")
    return decode(cls, min(version, known_max), view, VERSION_BYTES)


def write_embedded(message: Message, *, version: int) -> bytes:
    assert version in message.VERSIONS, (message, version)
    return version.to_bytes(VERSION_BYTES, "big") + encode(message, version)

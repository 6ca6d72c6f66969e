"""Who and what: the identities that every layer passes around.

A topic id travels as its 16 raw bytes, because that is what the wire and the disk hold and because
bytes are cheap to hash; people see it in Kafka's text form, URL-safe base64 without padding.
"""

import base64
import binascii
from collections.abc import Callable
from typing import NamedTuple, NewType

NodeId = NewType("NodeId", int)
TopicId = NewType("TopicId", bytes)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)

NO_TOPIC_ID = TopicId(bytes(16))
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = TopicId(bytes(15) + b"\x01")
RESERVED_IDS = 100  # the first directory ids: lost, unassigned, being moved


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def id_text(raw: bytes) -> str:
    """A 16-byte id as Kafka prints it."""
    assert len(raw) == 16, raw
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def random_id(random_bytes: Callable[[int], bytes]) -> bytes:
    """A new 16-byte id: a UUID of version 4, as Apache Kafka makes them. Its text never begins with
    a hyphen, which command lines would take for an option.
    """
    while True:
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        if not id_text(bytes(raw)).startswith("-"):
            return bytes(raw)


def id_bytes(text: str) -> bytes:
    """The inverse of `id_text`; ValueError when the text is no id."""
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not an id in base64") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not an id: it holds {len(raw)} bytes instead of 16")
    return raw

"""The commonest request there is, read and acked without building it: one batch, one partition.

Producers that do not gather, and those that write to few partitions, send little else, and for
small records the objects of a whole ProduceRequest and its reply cost more than the append. Both
functions here know one shape of the bytes and give way, with None, to `wire/codec` for every other:

    request   api key 0, version 9 to 13, correlation id, client id | no tags
              | no transactional id, or one of less than 127 bytes, all ASCII
              | acks int16 | timeout int32
              | one topic: id (from 13), or name of less than 127 bytes
              | one partition: index int32 | records | no tags, three times
    reply     no tags | one topic: the same | one partition: index int32 | error 0 | base offset
              | log append time | start offset | no record errors | no message | no tags
              | no tags | throttle time 0 | no tags

What is read here means the same as when it is read there: a test compares the two.
"""

import struct
from collections.abc import Callable
from typing import Final

from penstock.wire.errors import MalformedMessage
from penstock.wire.primitive import long_uvarint

# Version, correlation id, acks, topic (16 bytes: its id; else its name), index, records, whether a
# transaction is named, and the timeout in milliseconds. A tuple because one is built per request;
# `read_single_produce` is its only maker.
SingleProduce = tuple[int, int, int, bytes, int, memoryview, bool, int]

PRODUCE_KEY: Final = 0
BY_NAME_FROM: Final = 9  # the first flexible version
BY_ID_FROM: Final = 13
VERSION_MAX: Final = 13
ONE: Final = 2  # the length of an array of one
NO_TAGS: Final[bytes] = b"\0\0\0"  # of the partition, the topic and the request

# What comes before the records is copied and read there: an index into bytes costs a tenth of one
# into a memoryview. Whoever has longer names is read by `wire/codec`. No slice of it may begin
# after its end or that of the bytes: where mypyc compiled it, that is a SystemError, and not empty.
_HEAD_BYTES: Final = 512

_HEADER: Final = struct.Struct(">hhih")
_UP_TO_TOPIC: Final = struct.Struct(">hiB")  # acks, timeout, topics
_UP_TO_RECORDS: Final = struct.Struct(">Bi")  # partitions, index
_BY_ID: Final = struct.Struct(">hiB16sBi")  # both, around a topic id
# Their methods and sizes at hand: to look one up costs as much as to call it.
_UNPACK_HEADER: Final = _HEADER.unpack_from
_UNPACK_UP_TO_TOPIC: Final = _UP_TO_TOPIC.unpack_from
_UNPACK_UP_TO_RECORDS: Final = _UP_TO_RECORDS.unpack_from
_UNPACK_BY_ID: Final = _BY_ID.unpack_from
_HEADER_BYTES: Final = _HEADER.size
_UP_TO_TOPIC_BYTES: Final = _UP_TO_TOPIC.size
_UP_TO_RECORDS_BYTES: Final = _UP_TO_RECORDS.size
_BY_ID_BYTES: Final = _BY_ID.size
_ACK_BY_ID: Final = struct.Struct(">iixB16sBi2xqqqB8x")
_PACK_BY_ID: Final = _ACK_BY_ID.pack
_ACK_BYTES: Final = _ACK_BY_ID.size - 4 - 16  # without the size itself and the topic
# By the length of the topic's name, made when one is first acked; names are shorter than 127 bytes.
_PACK_BY_NAME: Final[dict[int, Callable[..., bytes]]] = {}


def read_single_produce(frame: memoryview) -> SingleProduce | None:
    """The request, if it has the one shape; None says nothing about whether it is well-formed."""
    head = frame[:_HEAD_BYTES].tobytes()
    # Declared, since what a Struct gives has no type: it would be compared and added as objects.
    key: int
    version: int
    correlation_id: int
    client_id_bytes: int
    acks: int
    timeout_ms: int
    topics: int
    topic: bytes
    partitions: int
    index: int
    try:
        key, version, correlation_id, client_id_bytes = _UNPACK_HEADER(head)
        if key != PRODUCE_KEY or not BY_NAME_FROM <= version <= VERSION_MAX or client_id_bytes < 0:
            return None
        at = _HEADER_BYTES + client_id_bytes
        id_size = head[at + 1]  # of the transaction: its length plus one, or 0
        if head[at] or (id_size and not _is_plain(head, at + 2, id_size - 1)):
            return None
        at += 2 + (id_size - 1 if id_size else 0)
        if version >= BY_ID_FROM:
            acks, timeout_ms, topics, topic, partitions, index = _UNPACK_BY_ID(head, at)
            at += _BY_ID_BYTES
        else:
            acks, timeout_ms, topics = _UNPACK_UP_TO_TOPIC(head, at)
            at += _UP_TO_TOPIC_BYTES
            name_bytes = head[at]  # plus one
            if not 0 < name_bytes <= 127:
                return None
            name_end = at + name_bytes
            topic = head[at + 1 : name_end]
            partitions, index = _UNPACK_UP_TO_RECORDS(head, name_end)
            at = name_end + _UP_TO_RECORDS_BYTES
        if topics != ONE or partitions != ONE:
            return None
        size = head[at]
        at += 1
        if size > 127:
            size, at = long_uvarint(frame, at, size)
    except (struct.error, IndexError, MalformedMessage):
        return None
    stop = at + size - 1
    if stop < at or stop + len(NO_TAGS) != len(frame):
        return None
    tags = head[stop:] if len(head) < _HEAD_BYTES else frame[stop:].tobytes()
    if tags != NO_TAGS:
        return None
    return version, correlation_id, acks, topic, index, frame[at:stop], id_size > 0, timeout_ms


def transactional_id_of(frame: memoryview) -> str:
    """Of a request that `read_single_produce` has read, and that names a transaction."""
    at = _HEADER_BYTES + _UNPACK_HEADER(frame)[3] + 1
    return frame[at + 1 : at + frame[at]].tobytes().decode("ascii")


def client_id_of(frame: memoryview) -> str:
    """Of a request that `read_single_produce` has read; what is no text is shown all the same."""
    size = _UNPACK_HEADER(frame)[3]
    return frame[_HEADER_BYTES : _HEADER_BYTES + size].tobytes().decode("utf-8", "replace")


def _is_plain(head: bytes, at: int, size: int) -> bool:
    """Whether it is short text that needs no decoding to be known as well-formed."""
    return 0 < size < 127 and head[at : at + size].isascii()


def encode_single_ack(
    request: SingleProduce, *, base_offset: int, log_append_time_ms: int, start_offset: int
) -> bytes:
    """The whole reply, its size and header included, to a request that succeeded."""
    version, correlation_id, _, topic, index, _, _, _ = request
    if version >= BY_ID_FROM:
        return _PACK_BY_ID(
            _ACK_BYTES + len(topic), correlation_id, ONE, topic, ONE, index,
            base_offset, log_append_time_ms, start_offset, 1,
        )  # fmt: skip
    name_bytes = len(topic)
    pack = _PACK_BY_NAME.get(name_bytes)
    if pack is None:
        pack = struct.Struct(f">iixBB{name_bytes}sBi2xqqqB8x").pack
        _PACK_BY_NAME[name_bytes] = pack
    return pack(
        _ACK_BYTES + 1 + name_bytes, correlation_id, ONE, name_bytes + 1, topic, ONE, index,
        base_offset, log_append_time_ms, start_offset, 1,
    )  # fmt: skip

"""Fetches of followers in an open session, and their replies, without the objects of the messages.

Followers send little else, and where records are few the objects of FetchRequest and FetchResponse
cost more than what is done with them. The functions here know one shape of the bytes each. Readers
give way, with None, to `wire/codec` for every other; writers are called where the shape fits:

    request   api key 1, version 15 to 18, correlation id, client id | no tags
              | wait, least and most bytes int32 | isolation level int8 | session id, epoch int32
              | topics: id | partitions: index, leader epoch int32 | offset int64
                        | epoch of the last record int32 | start offset int64 | bytes int32
                        | no tags
                        | no tags
              | nothing forgotten | no rack | tag 1 alone: node int32 | broker epoch int64 | no tags
    reply     no tags | throttle time int32 | error 0 | session id int32
              | topics: id | partitions: index int32 | error 0
                        | high watermark, stable offset, start offset int64
                        | no list of aborted transactions | preferred replica int32 | records
                        | no tags
                        | no tags
              | no tags

What is read and written here means the same as there: a test compares the two.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from penstock.wire.codec import Part, Splice
from penstock.wire.errors import MalformedMessage
from penstock.wire.primitive import long_uvarint, uvarint

FETCH_KEY: Final = 1
VERSION_MIN: Final = 15  # from here on a tagged field says which node fetches
VERSION_MAX: Final = 18
NO_PREFERRED_REPLICA: Final = -1
NO_TAGS: Final[bytes] = b"\0"
REPLICA_TAG_BYTES: Final = 13  # node, broker epoch, no tags

_HEADER: Final = struct.Struct(">hhih")
_BOUNDS: Final = struct.Struct(">xiiibii")  # tags of the header, then up to the session's epoch
_POSITION: Final = struct.Struct(">iiqiqiB")
_TAIL: Final = struct.Struct(">BBBBBiqB")
_REPLY_HEAD: Final = struct.Struct(">iixihi")
_REPLY_START: Final = struct.Struct(">ixihi")
_ANSWER: Final = struct.Struct(">ihqqqBi")
_UNPACK_HEADER: Final = _HEADER.unpack_from
_UNPACK_BOUNDS: Final = _BOUNDS.unpack_from
_UNPACK_POSITION: Final = _POSITION.unpack_from
_UNPACK_TAIL: Final = _TAIL.unpack_from
_UNPACK_REPLY_START: Final = _REPLY_START.unpack_from
_UNPACK_ANSWER: Final = _ANSWER.unpack_from
_PACK_POSITION: Final = _POSITION.pack
_PACK_ANSWER: Final = _ANSWER.pack
_HEADER_BYTES: Final = _HEADER.size
_BOUNDS_BYTES: Final = _BOUNDS.size
_POSITION_BYTES: Final = _POSITION.size
_TAIL_BYTES: Final = _TAIL.size
_REPLY_START_BYTES: Final = _REPLY_START.size
_ANSWER_BYTES: Final = _ANSWER.size
_TOPIC_ID_BYTES: Final = 16
_REQUEST_BYTES_MIN: Final = _HEADER_BYTES + _BOUNDS_BYTES + 1 + _TAIL_BYTES
_TAG_SIZE_FROM_END: Final = 14  # where the size of the one tag stands


class NamedPosition:
    """Where the follower is in one partition that a fetch names. Built per partition."""

    __slots__ = (
        "index", "last_fetched_epoch", "leader_epoch", "log_start_offset", "offset",
        "partition_bytes_max", "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        topic_id: bytes,
        index: int,
        leader_epoch: int,
        offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
        partition_bytes_max: int,
    ) -> None:
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.offset = offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_bytes_max = partition_bytes_max


class ReplicaFetch:
    """One such request. Built per request."""

    __slots__ = (
        "broker_epoch", "bytes_max", "bytes_min", "correlation_id", "named", "node",
        "session_epoch", "session_id", "version", "wait_ms_max",
    )  # fmt: skip

    def __init__(self, version: int, correlation_id: int) -> None:
        self.version = version
        self.correlation_id = correlation_id
        self.wait_ms_max = 0
        self.bytes_min = 0
        self.bytes_max = 0
        self.session_id = 0
        self.session_epoch = 0
        self.node = -1
        self.broker_epoch = -1
        self.named: list[NamedPosition] = []


class Answer:
    """What a reply says of one partition; `records` is None where there are none."""

    __slots__ = (
        "high_watermark", "index", "last_stable_offset", "records", "start_offset", "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        *,
        topic_id: bytes,
        index: int,
        high_watermark: int,
        last_stable_offset: int,
        start_offset: int,
        records: Splice | None,
    ) -> None:
        self.topic_id = topic_id
        self.index = index
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.start_offset = start_offset
        self.records = records


class FetchedPartition:
    """The same, as it is received: `records` is a view of the receive buffer."""

    __slots__ = ("high_watermark", "index", "records", "start_offset", "topic_id")

    def __init__(
        self,
        topic_id: bytes,
        index: int,
        high_watermark: int,
        start_offset: int,
        records: memoryview,
    ) -> None:
        self.topic_id = topic_id
        self.index = index
        self.high_watermark = high_watermark
        self.start_offset = start_offset
        self.records = records


class ReplicaReply:
    """One such reply."""

    __slots__ = ("partitions", "session_id")

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.partitions: list[FetchedPartition] = []


def encode_position(
    *,
    index: int,
    leader_epoch: int,
    offset: int,
    last_fetched_epoch: int,
    log_start_offset: int,
    partition_bytes_max: int,
) -> bytes:
    """One partition of a request: see `encode_replica_fetch`."""
    return _PACK_POSITION(
        index, leader_epoch, offset, last_fetched_epoch, log_start_offset, partition_bytes_max, 0
    )


def encode_replica_fetch(
    *,
    version: int,
    correlation_id: int,
    client_id: bytes,
    wait_ms_max: int,
    bytes_min: int,
    bytes_max: int,
    session_id: int,
    session_epoch: int,
    node: int,
    broker_epoch: int,
    topics: Mapping[bytes, Sequence[bytes]],
) -> bytes:
    """The whole request, its size and header included. `topics` has the encoded positions of each
    topic by its id.
    """
    assert VERSION_MIN <= version <= VERSION_MAX, version
    pieces = [
        _HEADER.pack(FETCH_KEY, version, correlation_id, len(client_id)),
        client_id,
        _BOUNDS.pack(wait_ms_max, bytes_min, bytes_max, 0, session_id, session_epoch),
        uvarint(len(topics) + 1),
    ]
    for topic_id, positions in topics.items():
        assert len(topic_id) == _TOPIC_ID_BYTES
        pieces.append(topic_id)
        pieces.append(uvarint(len(positions) + 1))
        pieces.extend(positions)
        pieces.append(NO_TAGS)
    pieces.append(_TAIL.pack(1, 1, 1, 1, REPLICA_TAG_BYTES, node, broker_epoch, 0))
    body = b"".join(pieces)
    return len(body).to_bytes(4, "big") + body


def read_replica_fetch(frame: memoryview, *, count_max: int) -> ReplicaFetch | None:
    """The request, if it has the one shape and names at most so many partitions; None says nothing
    about whether it is well-formed.
    """
    tail_at = len(frame) - _TAIL_BYTES
    # What is not of a follower is mostly known by one byte.
    if len(frame) < _REQUEST_BYTES_MIN or frame[-_TAG_SIZE_FROM_END] != REPLICA_TAG_BYTES:
        return None
    try:
        key, version, correlation_id, client_id_bytes = _UNPACK_HEADER(frame)
        if key != FETCH_KEY or not VERSION_MIN <= version <= VERSION_MAX or client_id_bytes < 0:
            return None
        found = ReplicaFetch(version, correlation_id)
        forgotten, rack, tags, tag, _, found.node, found.broker_epoch, inner = _UNPACK_TAIL(
            frame, tail_at
        )
        at = _HEADER_BYTES + client_id_bytes
        if forgotten != 1 or rack != 1 or tags != 1 or tag != 1 or inner or frame[at]:
            return None
        (
            found.wait_ms_max,
            found.bytes_min,
            found.bytes_max,
            _,
            found.session_id,
            found.session_epoch,
        ) = _UNPACK_BOUNDS(frame, at)
        at += _BOUNDS_BYTES
        topics, at = _count(frame, at)
        named = found.named
        for _ in range(topics):
            topic_id = frame[at : at + _TOPIC_ID_BYTES].tobytes()
            count, at = _count(frame, at + _TOPIC_ID_BYTES)
            if len(named) + count > count_max:
                return None
            for _ in range(count):
                (
                    index, leader_epoch, offset, last_epoch, start_offset, bytes_max, tags,
                ) = _UNPACK_POSITION(frame, at)  # fmt: skip
                if tags:
                    return None
                named.append(
                    NamedPosition(
                        topic_id, index, leader_epoch, offset, last_epoch, start_offset, bytes_max
                    )
                )
                at += _POSITION_BYTES
            if frame[at]:
                return None
            at += 1
    except (struct.error, IndexError, MalformedMessage):
        return None
    return found if at == tail_at else None


def encode_replica_reply(
    *, correlation_id: int, session_id: int, answers: Sequence[Answer]
) -> list[Part]:
    """The whole reply, its size and header included. Answers of one topic that follow each other
    are of one entry, as in the message.
    """
    parts: list[Part] = []
    pieces: list[bytes] = []
    size_bytes = _REPLY_HEAD.size - 4
    entries = 0
    at, end = 0, len(answers)
    while at < end:
        topic_id = answers[at].topic_id
        first = at
        while at < end and answers[at].topic_id == topic_id:
            at += 1
        entries += 1
        pieces.append(topic_id)
        pieces.append(uvarint(at - first + 1))
        for number in range(first, at):
            answer = answers[number]
            records = answer.records
            records_bytes = 0 if records is None else records.byte_count
            pieces.append(
                _PACK_ANSWER(
                    answer.index,
                    0,
                    answer.high_watermark,
                    answer.last_stable_offset,
                    answer.start_offset,
                    0,
                    NO_PREFERRED_REPLICA,
                )
            )
            pieces.append(uvarint(records_bytes + 1))
            if records is not None:
                joined = b"".join(pieces)
                parts.append(joined)
                parts.append(records)
                size_bytes += len(joined) + records_bytes
                pieces = []
            pieces.append(NO_TAGS)
        pieces.append(NO_TAGS)
    pieces.append(NO_TAGS)
    last = b"".join(pieces)
    parts.append(last)
    count = uvarint(entries + 1)
    size_bytes += len(last) + len(count)
    first_part = parts[0]
    assert isinstance(first_part, bytes)
    parts[0] = _REPLY_HEAD.pack(size_bytes, correlation_id, 0, 0, session_id) + count + first_part
    return parts


def read_replica_reply(frame: memoryview) -> ReplicaReply | None:
    """A reply of a version that has topic ids, if it has the one shape; None says nothing about
    whether it is well-formed.
    """
    try:
        _, _, error_code, session_id = _UNPACK_REPLY_START(frame)
        if error_code or frame[4]:
            return None
        reply = ReplicaReply(session_id)
        partitions = reply.partitions
        topics, at = _count(frame, _REPLY_START_BYTES)
        for _ in range(topics):
            topic_id = frame[at : at + _TOPIC_ID_BYTES].tobytes()
            count, at = _count(frame, at + _TOPIC_ID_BYTES)
            for _ in range(count):
                index, error_code, high_watermark, _, start_offset, aborted, _ = _UNPACK_ANSWER(
                    frame, at
                )
                at += _ANSWER_BYTES
                size_bytes, at = _count(frame, at)
                stop = at + size_bytes
                if error_code or aborted or frame[stop]:
                    return None
                records = frame[at:stop]
                partitions.append(
                    FetchedPartition(topic_id, index, high_watermark, start_offset, records)
                )
                at = stop + 1
            if frame[at]:
                return None
            at += 1
        if frame[at] or at + 1 != len(frame):
            return None
    except (struct.error, IndexError, MalformedMessage):
        return None
    return reply


def _count(frame: memoryview, at: int) -> tuple[int, int]:
    """A length, and the position after it."""
    number = frame[at]
    at += 1
    if number > 127:
        number, at = long_uvarint(frame, at, number)
    if number == 0:
        raise MalformedMessage("null")  # which `wire/codec` judges
    return number - 1, at

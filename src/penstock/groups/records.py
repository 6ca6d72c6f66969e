"""The records of a coordinator's journal, in Kafka's form, so that its own tools read ours.

A record of `__consumer_offsets` has a key, so that compaction keeps the last of each; no value is a
tombstone.

    key     int16   number of the record type
            ...     the key's message, version 0
    value   int16   version of the value
            ...     the value's message in that version

`encode` writes the versions that Apache Kafka 4.3 writes; `decode` reads all that it ever wrote.
"""

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from penstock.model.error import PenstockError
from penstock.model.identity import NO_TOPIC_ID, ProducerEpoch, ProducerId
from penstock.wire import codec
from penstock.wire.definition import Message
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.coordinator_records.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from penstock.wire.messages.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from penstock.wire.messages.coordinator_records.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)

GROUP_METADATA_VERSION = 3
OFFSET_COMMIT_VERSION = 4
OFFSET_COMMIT_VERSION_EXPIRING = 1  # the only one that holds a time of expiry
INT32 = struct.Struct(">i")
OFFSET_VALUE_START = struct.Struct(">hqiB")  # version, offset, leader epoch, length of metadata + 1
OFFSET_VALUE_END = struct.Struct(">qBBB16s")  # time of commit, the tag of the topic's id, the id
LEGACY_OFFSET_COMMIT = 0  # the record type of offsets before 0.8.2; key and value are the same

AnyMessage = TypeVar("AnyMessage", bound=Message)


class OffsetValue(NamedTuple):
    """One committed offset. A tuple: there may be very many of them."""

    offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None  # given by clients of old; else the settings decide
    topic_id: bytes = NO_TOPIC_ID  # where it was known to whoever wrote this


class OffsetCommitted(NamedTuple):
    group: str
    topic: str
    partition: int
    value: OffsetValue | None


class ClassicGroupStored(NamedTuple):
    group: str
    value: GroupMetadataValue | None


class ConsumerGroupStored(NamedTuple):
    group: str
    value: ConsumerGroupMetadataValue | None


class ConsumerMemberStored(NamedTuple):
    group: str
    member: str
    value: ConsumerGroupMemberMetadataValue | None


class ConsumerTargetStored(NamedTuple):
    group: str
    value: ConsumerGroupTargetAssignmentMetadataValue | None


class ConsumerTargetMemberStored(NamedTuple):
    group: str
    member: str
    value: ConsumerGroupTargetAssignmentMemberValue | None


class ConsumerCurrentStored(NamedTuple):
    group: str
    member: str
    value: ConsumerGroupCurrentMemberAssignmentValue | None


class ConsumerRegexStored(NamedTuple):
    group: str
    regex: str
    value: ConsumerGroupRegularExpressionValue | None


class TransactionalOffset(NamedTuple):
    """An offset that becomes valid when the transaction of its producer is committed."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    group: str
    topic: str
    partition: int
    value: OffsetValue


class TransactionEnded(NamedTuple):
    """The marker of a producer's transaction: a control record, without a key."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: int
    committed: bool


KeyedRecord = (
    OffsetCommitted
    | ClassicGroupStored
    | ConsumerGroupStored
    | ConsumerMemberStored
    | ConsumerTargetStored
    | ConsumerTargetMemberStored
    | ConsumerCurrentStored
    | ConsumerRegexStored
)
GroupRecord = KeyedRecord | TransactionalOffset | TransactionEnded


class UnreadableGroupRecord(PenstockError):
    """A record of a coordinator's journal that is damaged, or of an unknown newer version."""


def encode(record: KeyedRecord) -> tuple[bytes, bytes | None]:
    """Key and value of one record."""
    key = _key(record)
    key_bytes = struct.pack(">h", key.API_KEY) + codec.encode(key, 0)
    if record.value is None:
        return key_bytes, None
    if isinstance(record, OffsetCommitted):
        return key_bytes, _encode_offset(record.value)
    version = GROUP_METADATA_VERSION if isinstance(record, ClassicGroupStored) else 0
    return key_bytes, struct.pack(">h", version) + codec.encode(record.value, version)


def decode(key: bytes, value: bytes | None) -> KeyedRecord | None:
    """The record; None for an unknown kind. UnreadableGroupRecord when damaged.

    Unknown kinds are not errors: a newer coordinator wrote them, or one of share and streams
    groups, which are not served here.
    """
    if len(key) < 2:
        raise UnreadableGroupRecord(f"invalid key of {len(key)} bytes")
    (kind,) = struct.unpack_from(">h", key)
    read = _READERS.get(kind)
    return None if read is None else read(key, value)


def _key(record: KeyedRecord) -> Message:
    match record:
        case OffsetCommitted():
            return OffsetCommitKey(
                group=record.group, topic=record.topic, partition=record.partition
            )
        case ClassicGroupStored():
            return GroupMetadataKey(group=record.group)
        case ConsumerGroupStored():
            return ConsumerGroupMetadataKey(group_id=record.group)
        case ConsumerMemberStored():
            return ConsumerGroupMemberMetadataKey(group_id=record.group, member_id=record.member)
        case ConsumerTargetStored():
            return ConsumerGroupTargetAssignmentMetadataKey(group_id=record.group)
        case ConsumerTargetMemberStored():
            return ConsumerGroupTargetAssignmentMemberKey(
                group_id=record.group, member_id=record.member
            )
        case ConsumerCurrentStored():
            return ConsumerGroupCurrentMemberAssignmentKey(
                group_id=record.group, member_id=record.member
            )
        case ConsumerRegexStored():
            return ConsumerGroupRegularExpressionKey(
                group_id=record.group, regular_expression=record.regex
            )


def _encode_offset(value: OffsetValue) -> bytes:
    expires = value.expire_timestamp_ms is not None
    version = OFFSET_COMMIT_VERSION_EXPIRING if expires else OFFSET_COMMIT_VERSION
    message = OffsetCommitValue(
        offset=value.offset,
        leader_epoch=-1 if value.leader_epoch is None else value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp=value.commit_timestamp_ms,
        expire_timestamp=-1 if value.expire_timestamp_ms is None else value.expire_timestamp_ms,
        topic_id=value.topic_id,
    )
    return struct.pack(">h", version) + codec.encode(message, version)


def _read_offset(key: bytes, value: bytes | None) -> OffsetCommitted:
    """Without the codec: a restart may read a hundred thousand of these."""
    try:
        group_end = 4 + (key[2] << 8 | key[3])
        topic_end = group_end + 2 + (key[group_end] << 8 | key[group_end + 1])
        if len(key) != topic_end + 4:
            raise UnreadableGroupRecord(f"key of {len(key)} bytes, expected {topic_end + 4}")
        return OffsetCommitted(
            str(key[4:group_end], "utf-8"),
            str(key[group_end + 2 : topic_end], "utf-8"),
            INT32.unpack_from(key, topic_end)[0],
            None if value is None else _read_offset_value(value),
        )
    except (IndexError, UnicodeDecodeError) as error:
        raise UnreadableGroupRecord(f"invalid key of an offset: {error}") from error


def _read_offset_value(value: bytes) -> OffsetValue:
    """Without the codec where it is in the form that we write most: short metadata, and an id."""
    if len(value) > OFFSET_VALUE_START.size:
        version, offset, epoch, length = OFFSET_VALUE_START.unpack_from(value)
        metadata_end = OFFSET_VALUE_START.size + length - 1
        if (
            version == OFFSET_COMMIT_VERSION
            and 0 < length < 0x80
            and len(value) == metadata_end + OFFSET_VALUE_END.size
        ):
            end = OFFSET_VALUE_END.unpack_from(value, metadata_end)
            timestamp_ms, tags, tag, tag_bytes, topic_id = end
            if (tags, tag, tag_bytes) == (1, 0, 16):  # there is one tagged field: the id
                return OffsetValue(
                    offset,
                    None if epoch < 0 else epoch,
                    str(value[OFFSET_VALUE_START.size : metadata_end], "utf-8"),
                    timestamp_ms,
                    None,
                    topic_id,
                )
    stored = _read_value(OffsetCommitValue, value)
    assert stored is not None
    return _offset_value(stored)


def _offset_value(stored: OffsetCommitValue) -> OffsetValue:
    expires = stored.expire_timestamp
    return OffsetValue(
        offset=stored.offset,
        leader_epoch=None if stored.leader_epoch < 0 else stored.leader_epoch,
        metadata=stored.metadata,
        commit_timestamp_ms=stored.commit_timestamp,
        expire_timestamp_ms=None if expires < 0 else expires,
        topic_id=stored.topic_id,
    )


def _read_classic_group(key: bytes, value: bytes | None) -> ClassicGroupStored:
    of = _read_key(GroupMetadataKey, key)
    return ClassicGroupStored(group=of.group, value=_read_value(GroupMetadataValue, value))


def _read_consumer_group(key: bytes, value: bytes | None) -> ConsumerGroupStored:
    of = _read_key(ConsumerGroupMetadataKey, key)
    return ConsumerGroupStored(
        group=of.group_id, value=_read_value(ConsumerGroupMetadataValue, value)
    )


def _read_member(key: bytes, value: bytes | None) -> ConsumerMemberStored:
    of = _read_key(ConsumerGroupMemberMetadataKey, key)
    stored = _read_value(ConsumerGroupMemberMetadataValue, value)
    return ConsumerMemberStored(group=of.group_id, member=of.member_id, value=stored)


def _read_target(key: bytes, value: bytes | None) -> ConsumerTargetStored:
    of = _read_key(ConsumerGroupTargetAssignmentMetadataKey, key)
    stored = _read_value(ConsumerGroupTargetAssignmentMetadataValue, value)
    return ConsumerTargetStored(group=of.group_id, value=stored)


def _read_target_member(key: bytes, value: bytes | None) -> ConsumerTargetMemberStored:
    of = _read_key(ConsumerGroupTargetAssignmentMemberKey, key)
    stored = _read_value(ConsumerGroupTargetAssignmentMemberValue, value)
    return ConsumerTargetMemberStored(group=of.group_id, member=of.member_id, value=stored)


def _read_current(key: bytes, value: bytes | None) -> ConsumerCurrentStored:
    of = _read_key(ConsumerGroupCurrentMemberAssignmentKey, key)
    stored = _read_value(ConsumerGroupCurrentMemberAssignmentValue, value)
    return ConsumerCurrentStored(group=of.group_id, member=of.member_id, value=stored)


def _read_regex(key: bytes, value: bytes | None) -> ConsumerRegexStored:
    of = _read_key(ConsumerGroupRegularExpressionKey, key)
    stored = _read_value(ConsumerGroupRegularExpressionValue, value)
    return ConsumerRegexStored(group=of.group_id, regex=of.regular_expression, value=stored)


_READERS: Mapping[int, Callable[[bytes, bytes | None], KeyedRecord]] = {
    LEGACY_OFFSET_COMMIT: _read_offset,
    OffsetCommitKey.API_KEY: _read_offset,
    GroupMetadataKey.API_KEY: _read_classic_group,
    ConsumerGroupMetadataKey.API_KEY: _read_consumer_group,
    ConsumerGroupMemberMetadataKey.API_KEY: _read_member,
    ConsumerGroupTargetAssignmentMetadataKey.API_KEY: _read_target,
    ConsumerGroupTargetAssignmentMemberKey.API_KEY: _read_target_member,
    ConsumerGroupCurrentMemberAssignmentKey.API_KEY: _read_current,
    ConsumerGroupRegularExpressionKey.API_KEY: _read_regex,
}


def _read_key(cls: type[AnyMessage], key: bytes) -> AnyMessage:
    try:
        return codec.decode_exact(cls, 0, memoryview(key), 2)
    except MalformedMessage as error:
        raise UnreadableGroupRecord(str(error)) from error


def _read_value(cls: type[AnyMessage], value: bytes | None) -> AnyMessage | None:
    if value is None:
        return None
    if len(value) < 2:
        raise UnreadableGroupRecord(f"invalid value of {len(value)} bytes")
    (version,) = struct.unpack_from(">h", value)
    if version not in cls.VERSIONS:
        raise UnreadableGroupRecord(f"{cls.__name__} has no version {version}")
    try:
        return codec.decode_exact(cls, version, memoryview(value), 2)
    except MalformedMessage as error:
        raise UnreadableGroupRecord(str(error)) from error

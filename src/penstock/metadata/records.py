"""The records of the metadata log, in Kafka's KRaft form, so that its own tools read ours.

A record of `__cluster_metadata-0` has no key; its value is one frame:

    frame version   unsigned varint   always 1
    record type     unsigned varint   `API_KEY` of the record's class
    version         unsigned varint   of the body
    body            the record as `wire/codec` writes it in that version

Records of a frame (KIP-868) stand around a decision of several batches; see `framing`.
"""

from collections.abc import Mapping

from penstock.model.error import PenstockError
from penstock.wire.codec import decode_exact, encode
from penstock.wire.definition import Field
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.metadata_records.access_control import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from penstock.wire.messages.metadata_records.broker import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.controller import RegisterControllerRecord
from penstock.wire.messages.metadata_records.delegation_token import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)
from penstock.wire.messages.metadata_records.feature_level import FeatureLevelRecord
from penstock.wire.messages.metadata_records.no_op import NoOpRecord
from penstock.wire.messages.metadata_records.partition import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
)
from penstock.wire.messages.metadata_records.producer_ids import ProducerIdsRecord
from penstock.wire.messages.metadata_records.topic import RemoveTopicRecord, TopicRecord
from penstock.wire.messages.metadata_records.transaction import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from penstock.wire.messages.metadata_records.user_scram_credential import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

FRAME_VERSION = 1

# The feature level of Apache Kafka 4.3; the versions below are those that it implies.
METADATA_VERSION_FEATURE = "metadata.version"
METADATA_VERSION_LEVEL = 30
TRANSACTION_VERSION_FEATURE = "transaction.version"
TRANSACTION_VERSION_LEVEL = 2  # the second generation of clients, which KIP-890 brought
ELR_VERSION_FEATURE = "eligible.leader.replicas.version"
ELR_VERSION_LEVEL = 1  # KIP-966
FEATURE_LEVELS: Mapping[str, int] = {
    METADATA_VERSION_FEATURE: METADATA_VERSION_LEVEL,
    ELR_VERSION_FEATURE: ELR_VERSION_LEVEL,
    TRANSACTION_VERSION_FEATURE: TRANSACTION_VERSION_LEVEL,
}

MetadataRecord = (
    TopicRecord
    | RemoveTopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | ClearElrRecord
    | ConfigRecord
    | RegisterBrokerRecord
    | UnregisterBrokerRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | BrokerRegistrationChangeRecord
    | RegisterControllerRecord
    | ProducerIdsRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | DelegationTokenRecord
    | RemoveDelegationTokenRecord
    | FeatureLevelRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | NoOpRecord
)
FrameRecord = BeginTransactionRecord | EndTransactionRecord | AbortTransactionRecord
LogRecord = MetadataRecord | FrameRecord

VERSION_WRITTEN: Mapping[type[LogRecord], int] = {
    TopicRecord: 0,
    RemoveTopicRecord: 0,
    PartitionRecord: 2,
    PartitionChangeRecord: 2,
    ClearElrRecord: 0,
    ConfigRecord: 0,
    RegisterBrokerRecord: 3,
    UnregisterBrokerRecord: 0,
    FenceBrokerRecord: 0,
    UnfenceBrokerRecord: 0,
    BrokerRegistrationChangeRecord: 2,
    RegisterControllerRecord: 0,
    ProducerIdsRecord: 0,
    UserScramCredentialRecord: 0,
    RemoveUserScramCredentialRecord: 0,
    DelegationTokenRecord: 0,
    RemoveDelegationTokenRecord: 0,
    FeatureLevelRecord: 0,
    AccessControlEntryRecord: 0,
    RemoveAccessControlEntryRecord: 0,
    NoOpRecord: 0,
    BeginTransactionRecord: 0,
    EndTransactionRecord: 0,
    AbortTransactionRecord: 0,
}
# A field that the version written lacks would be lost without a word: it must have its default.
FIELDS_NOT_WRITTEN: Mapping[type[LogRecord], tuple[Field, ...]] = {
    record_type: tuple(field for field in record_type.FIELDS if version not in field.versions)
    for record_type, version in VERSION_WRITTEN.items()
}
BY_KEY: Mapping[int, type[LogRecord]] = {
    record_type.API_KEY: record_type for record_type in VERSION_WRITTEN
}


class UnreadableMetadata(PenstockError):
    """A metadata record that is damaged, or of an unknown kind."""


def encode_record(record: LogRecord) -> bytes:
    """The frame of one record, in the version that we write."""
    version = VERSION_WRITTEN[type(record)]
    assert record.API_KEY < 128 and version < 128, "varints of one byte"
    for field in FIELDS_NOT_WRITTEN[type(record)]:
        assert getattr(record, field.name) == field.default, (field.name, record)
    return bytes((FRAME_VERSION, record.API_KEY, version)) + encode(record, version)


def decode_record(frame: bytes) -> LogRecord:
    """The record in a frame, of any version; UnreadableMetadata when there is none."""
    position = 0
    numbers = []
    for _ in range(3):
        number, position = _unsigned_varint(frame, position)
        numbers.append(number)
    frame_version, key, version = numbers
    if frame_version != FRAME_VERSION:
        raise UnreadableMetadata(f"frame version {frame_version}, expected {FRAME_VERSION}")
    record_type = BY_KEY.get(key)
    if record_type is None:
        raise UnreadableMetadata(f"unknown record type {key}")
    if version not in record_type.VERSIONS:
        raise UnreadableMetadata(f"{record_type.__name__} has no version {version}")
    try:
        return decode_exact(record_type, version, memoryview(frame), position)
    except MalformedMessage as error:
        raise UnreadableMetadata(str(error)) from error


def _unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    """A number of at most 15 bits, as all three are, and the position after it."""
    number = 0
    for index, byte in enumerate(data[position : position + 3]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, position + index + 1
    raise UnreadableMetadata("the frame's header is truncated or too long")

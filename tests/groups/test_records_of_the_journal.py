"""What a coordinator journals is read back as it was, and is in the form that Kafka gives it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.records import (
    ClassicGroupStored,
    ConsumerCurrentStored,
    ConsumerGroupStored,
    ConsumerMemberStored,
    ConsumerRegexStored,
    ConsumerTargetMemberStored,
    ConsumerTargetStored,
    KeyedRecord,
    OffsetCommitted,
    OffsetValue,
    UnreadableGroupRecord,
    decode,
    encode,
)
from penstock.wire.messages.coordinator_records.consumer_group import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartition,
)
from penstock.wire.messages.coordinator_records.group_metadata import (
    GroupMetadataValue,
    MemberMetadata,
)

TOPIC_ID = bytes(range(16))
RECORDS: list[KeyedRecord] = [
    OffsetCommitted(
        group="g",
        topic="orders",
        partition=3,
        value=OffsetValue(
            offset=42,
            leader_epoch=None,
            metadata="seen",
            commit_timestamp_ms=1000,
            topic_id=TOPIC_ID,
        ),
    ),
    ClassicGroupStored(
        group="g",
        value=GroupMetadataValue(
            protocol_type="consumer",
            generation=2,
            protocol="range",
            leader="m",
            members=[MemberMetadata(member_id="m", group_instance_id="i", assignment=b"\0")],
        ),
    ),
    ConsumerGroupStored(group="g", value=ConsumerGroupMetadataValue(epoch=5, metadata_hash=9)),
    ConsumerMemberStored(
        group="g",
        member="m",
        value=ConsumerGroupMemberMetadataValue(
            client_id="c",
            subscribed_topic_names=["orders"],
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=1, supported_protocols=[ClassicProtocol(name="range")]
            ),
        ),
    ),
    ConsumerTargetStored(
        group="g", value=ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=5)
    ),
    ConsumerTargetMemberStored(
        group="g",
        member="m",
        value=ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[TargetTopicPartition(topic_id=TOPIC_ID, partitions=[0, 1])]
        ),
    ),
    ConsumerCurrentStored(
        group="g",
        member="m",
        value=ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=5,
            assigned_partitions=[
                CurrentTopicPartitions(
                    topic_id=TOPIC_ID, partitions=[0, 1], assignment_epochs=[4, 5]
                )
            ],
        ),
    ),
    ConsumerRegexStored(
        group="g",
        regex="orders.*",
        value=ConsumerGroupRegularExpressionValue(topics=["orders"], version=1, timestamp=2),
    ),
]


def named(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize("record", RECORDS, ids=named)
def test_a_record_is_read_as_it_was_written(record: KeyedRecord) -> None:
    assert decode(*encode(record)) == record


@pytest.mark.parametrize("record", RECORDS, ids=named)
def test_a_tombstone_has_the_key_of_its_record(record: KeyedRecord) -> None:
    key, _ = encode(record)
    tombstone = decode(key, None)
    assert tombstone is not None
    assert tombstone.value is None
    assert encode(tombstone) == (key, None)


def test_an_offset_is_written_as_apache_kafka_writes_it() -> None:
    key, value = encode(RECORDS[0])
    assert key.hex() == "000100016700066f726465727300000003"
    assert value is not None
    assert (
        value.hex()
        == ("0004000000000000002affffffff057365656e00000000000003e8010010") + bytes(range(16)).hex()
    )


@given(
    group=st.text(max_size=300),
    metadata=st.text(max_size=200),
    partition=st.integers(-(2**31), 2**31 - 1),
    offset=st.integers(-(2**63), 2**63 - 1),
    epoch=st.none() | st.integers(0, 2**31 - 1),
    expires=st.none() | st.integers(0, 2**63 - 1),
    topic_id=st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
)
def test_any_offset_is_read_as_it_was_written(
    group: str,
    metadata: str,
    partition: int,
    offset: int,
    epoch: int | None,
    expires: int | None,
    topic_id: bytes,
) -> None:
    value = OffsetValue(
        offset=offset,
        leader_epoch=None if expires is not None else epoch,  # the old version has no room for it
        metadata=metadata,
        commit_timestamp_ms=7,
        expire_timestamp_ms=expires,
        topic_id=bytes(16) if expires is not None else topic_id,
    )
    record = OffsetCommitted(group=group, topic="t", partition=partition, value=value)
    key, written = encode(record)
    assert decode(key, written) == record
    assert written is not None
    for cut in (1, 4, 9):
        with pytest.raises(UnreadableGroupRecord):
            decode(key[:-cut], written)
        with pytest.raises(UnreadableGroupRecord):
            decode(key, written[:-cut])


def test_an_offset_with_a_time_of_expiry_keeps_it() -> None:
    expiring = OffsetValue(1, None, "", commit_timestamp_ms=5, expire_timestamp_ms=9)
    record = OffsetCommitted(group="g", topic="t", partition=0, value=expiring)
    assert decode(*encode(record)) == record


def test_offsets_of_the_oldest_coordinators_are_read() -> None:
    key = bytes.fromhex("000000016700017400000000")
    value = bytes.fromhex("0000000000000000000700000000000000000005")
    assert decode(key, value) == OffsetCommitted(
        group="g", topic="t", partition=0, value=OffsetValue(7, None, "", 5)
    )


def test_a_kind_of_record_that_is_not_known_is_passed_over() -> None:
    assert decode(bytes.fromhex("7fff00"), b"anything") is None


@given(key=st.binary(max_size=12), value=st.none() | st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(key: bytes, value: bytes | None) -> None:
    with contextlib.suppress(UnreadableGroupRecord):
        found = decode(key, value)
        assert found is None or decode(*encode(found)) == found

"""Metadata records on disk: what is written is read back, and garbage is told as such."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.records import (
    MetadataRecord,
    UnreadableMetadata,
    decode_record,
    encode_record,
)
from penstock.wire.messages.metadata_records.broker import RegisterBrokerRecord
from penstock.wire.messages.metadata_records.config import ConfigRecord
from penstock.wire.messages.metadata_records.partition import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
)
from penstock.wire.messages.metadata_records.topic import TopicRecord
from rig.cluster import Cluster


def records_of_a_cluster() -> list[MetadataRecord]:
    cluster = Cluster(brokers=2)
    cluster.create("orders", partitions=3, replicas=2, retention_ms="1")
    return cluster.records


ELIGIBLE = (
    PartitionRecord(
        partition_id=0,
        eligible_leader_replicas=[1],
        last_known_elr=[2],
        leader_recovery_state=1,
        adding_replicas=[3],
        removing_replicas=[4],
    ),
    PartitionChangeRecord(
        partition_id=0,
        eligible_leader_replicas=[],
        last_known_elr=[2],
        leader_recovery_state=0,
        adding_replicas=[],
    ),
    ClearElrRecord(topic_name="orders"),
)


@pytest.mark.parametrize(
    "record", [*records_of_a_cluster(), *ELIGIBLE], ids=lambda record: type(record).__name__
)
def test_a_record_is_read_back_as_it_was_written(record: MetadataRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_the_frame_is_kafkas() -> None:
    topic_id = bytes(range(16))
    frame = encode_record(TopicRecord(name="t", topic_id=topic_id))
    assert frame == b"\x01\x02\x00" + b"\x02t" + topic_id + b"\x00"


def test_a_field_that_the_version_written_lacks_is_never_lost() -> None:
    with pytest.raises(AssertionError):
        encode_record(RegisterBrokerRecord(cordoned_log_dirs=[bytes(16)]))


@given(st.binary(max_size=60))
def test_garbage_raises_nothing_but_our_own_error(data: bytes) -> None:
    with contextlib.suppress(UnreadableMetadata):
        decode_record(data)


@given(st.binary(max_size=40))
def test_garbage_behind_a_good_header_raises_nothing_but_our_own_error(data: bytes) -> None:
    with contextlib.suppress(UnreadableMetadata):
        decode_record(b"\x01\x03\x01" + data)


@pytest.mark.parametrize(
    "frame", [b"", b"\x00\x02\x00", b"\x01\x7f\x00", b"\x01\x02\x09", b"\xff\xff\xff\xff"]
)
def test_what_is_no_frame_of_ours_is_refused(frame: bytes) -> None:
    with pytest.raises(UnreadableMetadata):
        decode_record(frame)


def test_bytes_behind_a_record_are_refused() -> None:
    frame = encode_record(ConfigRecord(resource_type=2, resource_name="t", name="n", value=None))
    with pytest.raises(UnreadableMetadata):
        decode_record(frame + b"\x00")

"""What we write we read again, in every version; records pass through without being copied."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

from penstock.wire.codec import (
    byte_count,
    decode,
    decode_exact,
    decode_prefix,
    encode,
    encode_parts,
)
from penstock.wire.definition import Message
from penstock.wire.errors import MalformedMessage
from penstock.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from penstock.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from penstock.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from penstock.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)


def test_message_survives_the_wire(
    message: type[Message],
    version: int,
    filled: Callable[[type[Message], int], SearchStrategy[Message]],
) -> None:
    @settings(max_examples=6, deadline=None, database=None)
    @given(original=filled(message, version))
    def survives(original: Message) -> None:
        assert decode_exact(message, version, memoryview(encode(original, version))) == original

    survives()


def test_message_of_defaults_survives_the_wire(message: type[Message], version: int) -> None:
    data = encode(message(), version)
    assert decode_exact(message, version, memoryview(data)) == message()


def test_field_a_version_lacks_is_read_as_its_default() -> None:
    topic = MetadataResponseTopic(name="orders", topic_id=b"i" * 16, is_internal=True)
    data = encode(MetadataResponse(controller_id=3, topics=[topic]), 0)
    back = decode_exact(MetadataResponse, 0, memoryview(data))
    assert back == MetadataResponse(topics=[MetadataResponseTopic(name="orders")])
    assert back.controller_id == -1


def test_message_is_read_from_the_middle_of_a_buffer() -> None:
    data = encode(ProduceResponse(throttle_time_ms=7), 9)
    padded = memoryview(b"before" + data + b"after")
    message, end = decode_prefix(ProduceResponse, 9, padded, 6)
    assert message == decode(ProduceResponse, 9, padded, 6)
    assert message.throttle_time_ms == 7
    assert end == 6 + len(data)


def test_bytes_after_an_exact_message_are_malformed() -> None:
    data = encode(ProduceResponse(), 9)
    with pytest.raises(MalformedMessage, match="1 bytes follow"):
        decode_exact(ProduceResponse, 9, memoryview(data + b"x"))


def test_records_are_read_in_place() -> None:
    partition = PartitionProduceData(index=1, records=b"batch")
    topic = TopicProduceData(name="orders", partition_data=[partition])
    received = bytearray(encode(ProduceRequest(topic_data=[topic]), 8))
    request = decode_exact(ProduceRequest, 8, memoryview(received))
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[:] = b"BATCH"
    assert b"BATCH" in received


@dataclass(frozen=True)
class Range:
    """Stands for bytes that stay in a file."""

    byte_count: int


@pytest.mark.parametrize("version", [4, 11, 12, 18])
def test_records_are_handed_on_as_they_are(version: int) -> None:
    in_file, in_memory = Range(1000), memoryview(b"batch")
    reply = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="orders",
                partitions=[
                    PartitionData(partition_index=0, records=in_file),
                    PartitionData(partition_index=1, records=None),
                    PartitionData(partition_index=2, records=[in_memory, in_file]),
                    PartitionData(partition_index=3, records=b""),
                ],
            )
        ]
    )
    parts = encode_parts(reply, version)
    assert [part for part in parts if not isinstance(part, bytes)] == [in_file, in_memory, in_file]
    filled = b"".join(bytes(p.byte_count) if isinstance(p, Range) else p for p in parts)
    assert byte_count(parts) == len(filled)
    back = decode_exact(FetchResponse, version, memoryview(filled))
    partitions = back.responses[0].partitions
    assert [None if p.records is None else bytes(p.records) for p in partitions] == [
        bytes(1000),
        None,
        b"batch" + bytes(1000),
        b"",
    ]


def test_partitions_without_records_take_no_buffer_of_their_own() -> None:
    partitions = [PartitionData(partition_index=number, records=b"") for number in range(100)]
    reply = FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)])
    (whole,) = encode_parts(reply, 12)
    assert whole == encode(reply, 12)


def test_unknown_tagged_fields_are_passed_over() -> None:
    data = encode(ProduceResponse(throttle_time_ms=7), 9)
    assert data[-1:] == b"\x00"
    unknown = b"\x02" + b"\x05\x03abc" + b"\xc8\x01\x00"
    back = decode_exact(ProduceResponse, 9, memoryview(data[:-1] + unknown))
    assert back.throttle_time_ms == 7


def test_unknown_tagged_fields_beside_known_ones_are_passed_over() -> None:
    partition = PartitionProduceResponse(
        index=1, current_leader=LeaderIdAndEpoch(leader_id=4, leader_epoch=9)
    )
    topic = TopicProduceResponse(name="orders", partition_responses=[partition])
    data = encode(ProduceResponse(responses=[topic]), 10)
    known = b"\x01\x00\x09\x00\x00\x00\x04\x00\x00\x00\x09\x00"
    assert known in data
    data = data.replace(known, b"\x02" + known[1:] + b"\x07\x01z")
    back = decode_exact(ProduceResponse, 10, memoryview(data))
    assert back.responses[0].partition_responses[0] == partition


def test_absent_tagged_field_costs_one_byte_for_all() -> None:
    topic = TopicProduceResponse(name="", partition_responses=[PartitionProduceResponse()])
    plain = encode(ProduceResponse(responses=[topic]), 9)
    assert len(encode(ProduceResponse(responses=[topic]), 10)) == len(plain)


@pytest.mark.parametrize("version", [4, 5])
def test_error_message_too_long_for_a_string_is_cut(version: int) -> None:
    result = CreatableTopicResult(name="x" * 32767, error_message="a" + "ü" * 40_000)
    data = encode(CreateTopicsResponse(topics=[result]), version)
    back = decode_exact(CreateTopicsResponse, version, memoryview(data))
    assert back.topics[0].error_message == "a" + "ü" * 16_383

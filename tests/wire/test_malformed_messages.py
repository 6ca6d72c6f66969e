"""Whatever bytes arrive, a reader gives a message or MalformedMessage, and takes little memory."""

import struct
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from penstock.model.limit import REQUEST_ENTRIES_MAX, TAGGED_FIELDS_MAX
from penstock.wire.codec import decode_exact, encode
from penstock.wire.definition import Message
from penstock.wire.errors import MalformedMessage
from penstock.wire.header import decode_request_header
from penstock.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.wire.messages.fetch_snapshot import FetchSnapshotResponse
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from penstock.wire.messages.metadata_records.partition import PartitionRecord
from penstock.wire.messages.produce import ProduceRequest
from penstock.wire.primitive import uvarint


def test_arbitrary_bytes_raise_nothing_else(message: type[Message], version: int) -> None:
    @settings(max_examples=6, deadline=None, database=None)
    @given(data=st.binary(max_size=80))
    def safe(data: bytes) -> None:
        assert isinstance(read_or_refuse(message, version, data), message | None)

    safe()


def test_damaged_message_raises_nothing_else(
    message: type[Message],
    version: int,
    filled: Callable[[type[Message], int], SearchStrategy[Message]],
) -> None:
    @settings(max_examples=6, deadline=None, database=None)
    @given(original=filled(message, version), where=st.integers(0), byte=st.integers(0, 255))
    def safe(original: Message, where: int, byte: int) -> None:
        data = bytearray(encode(original, version))
        if data:
            data[where % len(data)] = byte
        read_or_refuse(message, version, bytes(data))

    safe()


def test_message_cut_off_anywhere_is_malformed(
    message: type[Message],
    version: int,
    filled: Callable[[type[Message], int], SearchStrategy[Message]],
) -> None:
    @settings(max_examples=2, deadline=None, database=None)
    @given(original=filled(message, version))
    def refused(original: Message) -> None:
        data = encode(original, version)
        for size in range(len(data)):
            with pytest.raises(MalformedMessage):
                decode_exact(message, version, memoryview(data)[:size])

    refused()


def read_or_refuse(message: type[Message], version: int, data: bytes) -> Message | None:
    """The message in the bytes; None when they hold none."""
    try:
        return decode_exact(message, version, memoryview(data))
    except MalformedMessage:
        return None


@pytest.mark.parametrize(
    ("message", "in_version", "data"),
    [
        pytest.param(MetadataRequest, 1, "7fffffff", id="array of 2^31 elements"),
        pytest.param(MetadataRequest, 9, "ffffffff07", id="compact array of 2^31 elements"),
        pytest.param(MetadataRequest, 1, "00000003 0001 61 0001 62", id="one element too many"),
        pytest.param(MetadataRequest, 1, "fffffffe", id="array of -2 elements"),
        pytest.param(MetadataRequest, 0, "ffffffff", id="null array where there is none"),
        pytest.param(FindCoordinatorRequest, 0, "ffff", id="null string where there is none"),
        pytest.param(FindCoordinatorRequest, 3, "00 00 00", id="compact null where there is none"),
        pytest.param(
            FetchSnapshotResponse,
            0,
            "00000000 0000 02 026d 02 00000000 0000" + "00" * 29 + "00 00 00 00",
            id="null records where there are none",
        ),
        pytest.param(FindCoordinatorRequest, 0, "fffe", id="string of -2 bytes"),
        pytest.param(FindCoordinatorRequest, 0, "8000", id="string of -32768 bytes"),
        pytest.param(FindCoordinatorRequest, 3, "ffffffffff01", id="varint of 6 bytes"),
        pytest.param(FindCoordinatorRequest, 3, "ffffffff7f", id="varint of 35 bits"),
        pytest.param(FindCoordinatorRequest, 3, "ff", id="varint without end"),
        pytest.param(InitProducerIdRequest, 2, "00 00000000 01", id="tags announced and missing"),
        pytest.param(InitProducerIdRequest, 2, "00 00000000 01 05 7f", id="tag too long"),
        pytest.param(InitProducerIdRequest, 2, "00 00000000 ffffffff0f", id="2^32 tags"),
    ],
)
def test_bad_length_is_malformed(message: type[Message], in_version: int, data: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_exact(message, in_version, memoryview(bytes.fromhex(data)))


@pytest.mark.parametrize(
    "request_of",
    [
        lambda count: MetadataRequest(topics=[MetadataRequestTopic(name="t")] * count),
        lambda count: FetchRequest(
            topics=[FetchTopic(topic="t", partitions=[FetchPartition()] * 4)] * (count // 5)
        ),
    ],
    ids=["in one array", "in many small arrays"],
)
def test_request_of_more_entries_than_any_cluster_needs_is_malformed(
    request_of: Callable[[int], Message],
) -> None:
    bearable, excessive = request_of(REQUEST_ENTRIES_MAX), request_of(REQUEST_ENTRIES_MAX + 5)
    decode_exact(type(bearable), 4, memoryview(encode(bearable, 4)))
    with pytest.raises(MalformedMessage, match="more than 100000 entries"):
        decode_exact(type(excessive), 4, memoryview(encode(excessive, 4)))


def tags(count: int) -> bytes:
    """So many tagged fields without content, which nobody knows."""
    return uvarint(count) + b"\x63\x00" * count


@pytest.mark.parametrize(
    ("message", "in_version", "head"),
    [
        pytest.param(InitProducerIdRequest, 2, "00 00000000", id="nothing known"),
        pytest.param(FetchRequest, 17, "00" * 21 + "01 01 01", id="tags known"),
        pytest.param(MetadataResponse, 12, "00000000 01 00 00000000 01", id="reply"),
    ],
)
def test_struct_of_more_tagged_fields_than_anybody_writes_is_malformed(
    message: type[Message], in_version: int, head: str
) -> None:
    bearable = bytes.fromhex(head) + tags(TAGGED_FIELDS_MAX)
    decode_exact(message, in_version, memoryview(bearable))
    excessive = bytes.fromhex(head) + tags(TAGGED_FIELDS_MAX + 1)
    with pytest.raises(MalformedMessage, match="more than 1000"):
        decode_exact(message, in_version, memoryview(excessive))


def test_repeated_tagged_field_is_counted_each_time() -> None:
    """The cluster id of a fetch, which is tag 0."""
    head, null = bytes.fromhex("00" * 21 + "01 01 01"), b"\x00\x01\x00"
    bearable = head + uvarint(TAGGED_FIELDS_MAX) + null * TAGGED_FIELDS_MAX
    decode_exact(FetchRequest, 17, memoryview(bearable))
    excessive = head + uvarint(TAGGED_FIELDS_MAX + 1) + null * (TAGGED_FIELDS_MAX + 1)
    with pytest.raises(MalformedMessage, match="more than 1000"):
        decode_exact(FetchRequest, 17, memoryview(excessive))


def test_tagged_fields_of_a_request_are_counted_with_its_entries() -> None:
    topic = b"\x02t" + tags(TAGGED_FIELDS_MAX)  # and the topic itself

    def topics(count: int) -> memoryview:
        return memoryview(uvarint(count + 1) + topic * count + b"\x00\x00\x00\x00")

    bearable = REQUEST_ENTRIES_MAX // (TAGGED_FIELDS_MAX + 1)
    decode_exact(MetadataRequest, 9, topics(bearable))
    with pytest.raises(MalformedMessage, match="more than 100000 entries"):
        decode_exact(MetadataRequest, 9, topics(bearable + 1))


def test_reply_may_be_as_long_as_a_cluster_is_large() -> None:
    topics = [MetadataResponseTopic(name="t")] * (REQUEST_ENTRIES_MAX + 1)
    reply = encode(MetadataResponse(topics=topics), 4)
    assert len(decode_exact(MetadataResponse, 4, memoryview(reply)).topics) == len(topics)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("0001 61 00", None),
        ("0001", "a length of 1 is more than the 0 bytes left allow"),
        ("00", "FindCoordinatorRequest 1 is cut off"),
        ("0001 61", "FindCoordinatorRequest 1 is cut off"),
    ],
)
def test_reason_is_told_in_words_of_the_protocol(data: str, reason: str | None) -> None:
    try:
        decode_exact(FindCoordinatorRequest, 1, memoryview(bytes.fromhex(data)))
    except MalformedMessage as error:
        assert str(error) == reason
    else:
        assert reason is None


@pytest.mark.parametrize("data", ["0002 c328", "0003 eda080"], ids=["no UTF-8", "a surrogate"])
def test_text_that_is_not_utf8_is_read_as_kafka_reads_it(data: str) -> None:
    read = decode_exact(FindCoordinatorRequest, 0, memoryview(bytes.fromhex(data)))
    assert "\N{REPLACEMENT CHARACTER}" in read.key
    assert encode(read, 0)


@pytest.mark.parametrize("version", [0, 3])
def test_text_that_could_not_be_sent_back_is_malformed(version: int) -> None:
    """Each byte that is not UTF-8 is three when it is written again."""
    for length, fits in [(10_922, True), (10_923, False)]:
        head = length.to_bytes(2, "big") if version == 0 else uvarint(length + 1)
        tail = b"" if version == 0 else b"\x00\x00"
        data = memoryview(head + b"\xff" * length + tail)
        if fits:
            assert encode(decode_exact(FindCoordinatorRequest, version, data), version)
        else:
            with pytest.raises(MalformedMessage):
                decode_exact(FindCoordinatorRequest, version, data)


def test_client_id_that_could_not_be_sent_back_is_malformed() -> None:
    head = struct.pack(">hhih", 10, 0, 1, 11_000)
    with pytest.raises(MalformedMessage):
        decode_request_header(memoryview(head + b"\xff" * 11_000))
    header, _ = decode_request_header(memoryview(head + b"x" * 11_000))
    assert header.client_id == "x" * 11_000


def test_known_tagged_field_of_another_length_is_malformed() -> None:
    data = encode(PartitionRecord(leader_recovery_state=5), 0)
    assert data.endswith(bytes.fromhex("01 00 01 05"))
    with pytest.raises(MalformedMessage, match="tagged field 0"):
        decode_exact(PartitionRecord, 0, memoryview(data[:-2] + b"\x02\x05\x00"))


def test_compact_string_longer_than_kafka_allows_is_malformed() -> None:
    text = b"x" * 32768
    data = bytes.fromhex("818002") + text + b"\x00\x00"
    with pytest.raises(MalformedMessage):
        decode_exact(FindCoordinatorRequest, 3, memoryview(data))


@pytest.mark.parametrize(
    ("message", "in_version", "data"),
    [
        (ProduceRequest, 8, "ffff 0001 00000001 7fffffff"),
        (FetchRequest, 12, "ffffffff 00000001 00000001 00000001 00 00000000 00000000 ffffffff07"),
        (MetadataResponse, 0, "00000000 00000001 0000 0001 61 7fffffff"),
        (PartitionRecord, 2, "00000000" + "00" * 16 + "ffffffff07"),
    ],
)
def test_a_small_frame_never_takes_much_memory(
    message: type[Message], in_version: int, data: str
) -> None:
    frame = memoryview(bytes.fromhex(data) + bytes(1000))
    with pytest.raises(MalformedMessage):
        decode_exact(message, in_version, frame)  # compiles the reader
    tracemalloc.start()
    try:
        with pytest.raises(MalformedMessage):
            decode_exact(message, in_version, frame)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()

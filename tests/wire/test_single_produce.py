"""The shortcut for a produce of one batch reads and writes what the codec reads and writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.codec import decode
from penstock.wire.header import decode_request_header, encode_request, encode_response
from penstock.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from penstock.wire.single_produce import encode_single_ack, read_single_produce

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
VERSIONS = st.integers(9, 13)
NAMES = st.text(st.characters(codec="utf-8"), max_size=30)
IDS = st.binary(min_size=16, max_size=16)
TAGS_BYTES = 3  # at the end of a request without any
TRANSACTIONS = st.none() | st.text(st.characters(codec="utf-8"), max_size=200)


def framed(
    request: ProduceRequest, version: int, *, correlation_id: int = 1, client_id: str | None = "c"
) -> memoryview:
    parts = encode_request(
        request, version=version, correlation_id=correlation_id, client_id=client_id
    )
    return memoryview(b"".join(bytes(part) for part in parts)[4:])  # type: ignore[arg-type]


def single(name: str = "t", records: bytes | None = b"batch", **fields: object) -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=records)
    topic = TopicProduceData(name=name, topic_id=bytes(range(16)), partition_data=[partition])
    return ProduceRequest(acks=1, timeout_ms=9, topic_data=[topic], **fields)


@given(
    VERSIONS,
    NAMES,
    IDS,
    INT16,
    INT32,
    INT32,
    INT32,
    st.binary(max_size=20_000),
    NAMES,
    TRANSACTIONS,
)
def test_what_is_read_is_what_the_codec_reads(
    version: int,
    name: str,
    topic_id: bytes,
    acks: int,
    timeout_ms: int,
    index: int,
    correlation_id: int,
    records: bytes,
    client_id: str,
    transactional_id: str | None,
) -> None:
    partition = PartitionProduceData(index=index, records=records)
    topic = TopicProduceData(name=name, topic_id=topic_id, partition_data=[partition])
    request = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=[topic]
    )
    frame = framed(request, version, correlation_id=correlation_id, client_id=client_id)
    found = read_single_produce(frame)
    is_plain = transactional_id is None or (
        0 < len(transactional_id) < 127 and transactional_id.isascii()
    )
    if not is_plain or (len(name.encode()) > 126 and version < 13):
        assert found is None
        return
    assert found is not None
    header, position = decode_request_header(frame)
    read = decode(ProduceRequest, version, frame, position)
    [topic_read] = read.topic_data
    [partition_read] = topic_read.partition_data
    told = topic_read.topic_id if version >= 13 else topic_read.name.encode()
    assert partition_read.records is not None
    assert found == (
        header.api_version, header.correlation_id, read.acks, told, partition_read.index,
        partition_read.records, read.transactional_id is not None, read.timeout_ms,
    )  # fmt: skip


@given(VERSIONS, NAMES.filter(lambda name: len(name.encode()) < 127), IDS, INT32, INT32, INT64)
def test_an_ack_is_what_the_codec_writes(
    version: int, name: str, topic_id: bytes, index: int, correlation_id: int, offset: int
) -> None:
    topic = topic_id if version >= 13 else name.encode()
    ack = encode_single_ack(
        (version, correlation_id, 1, topic, index, memoryview(b""), False, 0),
        base_offset=offset,
        log_append_time_ms=offset ^ 1,
        start_offset=offset ^ 2,
    )
    answer = PartitionProduceResponse(
        index=index,
        base_offset=offset,
        log_append_time_ms=offset ^ 1,
        log_start_offset=offset ^ 2,
    )
    told = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[answer])
    [expected] = encode_response(correlation_id, ProduceResponse(responses=[told]), version)
    assert ack == expected


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize(
    "request_",
    [
        single(transactional_id="ü"),
        single(records=None),
        ProduceRequest(topic_data=[]),
        ProduceRequest(topic_data=single().topic_data * 2),
        ProduceRequest(
            topic_data=[TopicProduceData(partition_data=single().topic_data[0].partition_data * 2)]
        ),
    ],
    ids=["transactional beyond ASCII", "no records", "no topic", "two topics", "two partitions"],
)
def test_other_shapes_are_left_to_the_codec(request_: ProduceRequest, version: int) -> None:
    assert read_single_produce(framed(request_, version)) is None


def test_older_versions_and_a_missing_client_id_are_left_to_the_codec() -> None:
    for version in range(3, 9):
        assert read_single_produce(framed(single(), version)) is None
    assert read_single_produce(framed(single(), 13, client_id=None)) is None


def test_a_client_id_that_is_longer_than_what_is_looked_at_is_left_to_the_codec() -> None:
    assert read_single_produce(framed(single(), 13, client_id="c" * 100)) is not None
    assert read_single_produce(framed(single(), 13, client_id="c" * 600)) is None


@given(VERSIONS, st.data())
def test_a_cut_or_longer_frame_is_left_to_the_codec(version: int, data: st.DataObject) -> None:
    frame = framed(single(transactional_id=data.draw(st.sampled_from([None, "t"]))), version)
    cut = data.draw(st.integers(0, len(frame) - 1))
    assert read_single_produce(frame[:cut]) is None
    assert read_single_produce(memoryview(frame.tobytes() + b"\0")) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_left(data: bytes) -> None:
    read_single_produce(memoryview(b"\0\0\0\x0d" + data))
    read_single_produce(memoryview(data))


@pytest.mark.parametrize("transactional_id", [None, "t"])
@pytest.mark.parametrize("version", [9, 13])
@pytest.mark.parametrize("records", [b"batch", bytes(1_000)], ids=["small", "large"])
def test_one_wrong_byte_is_read_as_the_codec_reads_it_or_left(
    version: int, transactional_id: str | None, records: bytes
) -> None:
    good = framed(single(records=records, transactional_id=transactional_id), version).tobytes()
    head_bytes = len(good) - len(records) - TAGS_BYTES
    left = 0
    for position in (*range(2, head_bytes), *range(len(good) - TAGS_BYTES, len(good))):
        for wrong in (0, 1, 2, 126, 127, 128, 129, 254, 255):
            frame = memoryview(good[:position] + bytes([wrong]) + good[position + 1 :])
            found = read_single_produce(frame)
            if found is None:
                left += 1
                continue
            header, at = decode_request_header(frame)
            request = decode(ProduceRequest, header.api_version, frame, at)
            [topic] = request.topic_data
            [partition] = topic.partition_data
            if header.api_version >= 13:
                assert found[3] == topic.topic_id
            else:
                assert found[3].decode("utf-8", "replace") == topic.name
            assert found[0] == header.api_version
            assert found[4:6] == (partition.index, partition.records)
            assert found[6] is (request.transactional_id is not None)
    assert left > head_bytes

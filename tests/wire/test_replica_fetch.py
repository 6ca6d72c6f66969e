"""The shortcuts for fetches of followers read and write what the codec reads and writes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.codec import decode
from penstock.wire.header import (
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from penstock.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    NodeEndpoint,
    PartitionData,
    ReplicaState,
)
from penstock.wire.replica_fetch import (
    Answer,
    encode_position,
    encode_replica_fetch,
    encode_replica_reply,
    read_replica_fetch,
    read_replica_reply,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
VERSIONS = st.integers(15, 18)
NAMES = st.text(st.characters(codec="utf-8"), max_size=30)
IDS = st.binary(min_size=16, max_size=16)
POSITIONS = st.builds(
    FetchPartition,
    partition=INT32,
    current_leader_epoch=INT32,
    fetch_offset=INT64,
    last_fetched_epoch=INT32,
    log_start_offset=INT64,
    partition_max_bytes=INT32,
)
TOPICS = st.lists(
    st.builds(FetchTopic, topic_id=IDS, partitions=st.lists(POSITIONS, max_size=150)),
    max_size=4,
    unique_by=lambda topic: topic.topic_id,
)
REQUESTS = st.builds(
    FetchRequest,
    replica_state=st.builds(ReplicaState, replica_id=INT32, replica_epoch=INT64),
    max_wait_ms=INT32,
    min_bytes=INT32,
    max_bytes=INT32,
    session_id=INT32,
    session_epoch=INT32,
    topics=TOPICS,
)
ANSWERS = st.builds(
    PartitionData,
    partition_index=INT32,
    high_watermark=INT64,
    last_stable_offset=INT64,
    log_start_offset=INT64,
    aborted_transactions=st.none(),
    records=st.binary(max_size=300),
)


class Held:
    """Records that are sent without being held, as a range of a file."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    @property
    def byte_count(self) -> int:
        return len(self.data)


def joined(parts: list[Any]) -> bytes:
    return b"".join(part.data if isinstance(part, Held) else bytes(part) for part in parts)


def framed(request: FetchRequest, version: int, client_id: str | None = "c") -> memoryview:
    parts = encode_request(request, version=version, correlation_id=7, client_id=client_id)
    return memoryview(joined(parts)[4:])


def request_of(version: int = 18, **fields: Any) -> FetchRequest:
    position = FetchPartition(partition=3, fetch_offset=5, partition_max_bytes=9)
    values: dict[str, Any] = {
        "replica_state": ReplicaState(replica_id=2, replica_epoch=11),
        "session_id": 4,
        "session_epoch": 6,
        "topics": [FetchTopic(topic_id=bytes(range(16)), partitions=[position])],
    }
    return FetchRequest(**{**values, **fields})


def reply_of(**fields: Any) -> FetchResponse:
    values: dict[str, Any] = {"aborted_transactions": None, "records": b"batch"}
    data = PartitionData(**{**values, **fields})
    topic = FetchableTopicResponse(topic_id=bytes(range(16)), partitions=[data])
    return FetchResponse(session_id=4, responses=[topic])


def read_reply(response: FetchResponse, version: int = 18) -> object:
    return read_replica_reply(memoryview(joined(encode_response(7, response, version)))[4:])


# ---- requests


@given(VERSIONS, INT32, NAMES, REQUESTS)
def test_a_request_is_written_as_the_codec_writes_it(
    version: int, correlation_id: int, client_id: str, request: FetchRequest
) -> None:
    assert request.replica_state is not None
    frame = encode_replica_fetch(
        version=version,
        correlation_id=correlation_id,
        client_id=client_id.encode(),
        wait_ms_max=request.max_wait_ms,
        bytes_min=request.min_bytes,
        bytes_max=request.max_bytes,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        node=request.replica_state.replica_id,
        broker_epoch=request.replica_state.replica_epoch,
        topics={
            topic.topic_id: [
                encode_position(
                    index=one.partition,
                    leader_epoch=one.current_leader_epoch,
                    offset=one.fetch_offset,
                    last_fetched_epoch=one.last_fetched_epoch,
                    log_start_offset=one.log_start_offset,
                    partition_bytes_max=one.partition_max_bytes,
                )
                for one in topic.partitions
            ]
            for topic in request.topics
        },
    )
    expected = encode_request(
        request, version=version, correlation_id=correlation_id, client_id=client_id
    )
    assert frame == joined(expected)


@given(VERSIONS, NAMES, REQUESTS)
def test_a_request_is_read_as_the_codec_reads_it(
    version: int, client_id: str, request: FetchRequest
) -> None:
    frame = framed(request, version, client_id)
    header, position = decode_request_header(frame)
    expected = decode(FetchRequest, version, frame, position)
    state = expected.replica_state
    found = read_replica_fetch(frame, count_max=1000)
    assert found is not None
    assert state is not None
    assert (found.version, found.correlation_id) == (version, header.correlation_id)
    assert (found.node, found.broker_epoch) == (state.replica_id, state.replica_epoch)
    assert (found.session_id, found.session_epoch) == (expected.session_id, expected.session_epoch)
    assert found.wait_ms_max == expected.max_wait_ms
    assert (found.bytes_min, found.bytes_max) == (expected.min_bytes, expected.max_bytes)
    named = [
        (
            one.topic_id, one.index, one.leader_epoch, one.offset, one.last_fetched_epoch,
            one.log_start_offset, one.partition_bytes_max,
        )
        for one in found.named
    ]  # fmt: skip
    assert named == [
        (
            topic.topic_id, one.partition, one.current_leader_epoch, one.fetch_offset,
            one.last_fetched_epoch, one.log_start_offset, one.partition_max_bytes,
        )
        for topic in expected.topics
        for one in topic.partitions
    ]  # fmt: skip


def test_requests_of_another_shape_are_left_to_the_codec() -> None:
    tagged = FetchPartition(partition=3, replica_directory_id=bytes(range(16)))
    others = [
        request_of(replica_state=None),
        request_of(rack_id="r"),
        request_of(cluster_id="c"),
        request_of(forgotten_topics_data=[ForgottenTopic(topic_id=bytes(16), partitions=[1])]),
        request_of(topics=[FetchTopic(topic_id=bytes(16), partitions=[tagged])]),
    ]
    for request in others:
        assert read_replica_fetch(framed(request, 18), count_max=10) is None, request
    assert read_replica_fetch(framed(request_of(), 18), count_max=10) is not None
    assert read_replica_fetch(framed(request_of(), 18), count_max=0) is None
    assert read_replica_fetch(framed(request_of(), 18, client_id=None), count_max=10) is None
    assert read_replica_fetch(framed(request_of(replica_id=2), 14), count_max=10) is None


@given(st.data())
def test_a_request_that_is_cut_or_changed_is_read_alike_or_not_at_all(data: st.DataObject) -> None:
    frame = bytearray(framed(request_of(), 18))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    view = memoryview(frame)[: data.draw(st.integers(0, len(frame)))]
    found = read_replica_fetch(view, count_max=10)
    if found is not None:
        header, position = decode_request_header(view)
        expected = decode(FetchRequest, header.api_version, view, position)
        assert expected.replica_state == ReplicaState(
            replica_id=found.node, replica_epoch=found.broker_epoch
        )
        assert [one.offset for one in found.named] == [
            one.fetch_offset for topic in expected.topics for one in topic.partitions
        ]


# ---- replies


@given(
    st.integers(13, 18),
    INT32,
    INT32,
    st.lists(st.tuples(st.sampled_from([bytes(16), b"1" * 16, b"2" * 16]), ANSWERS), max_size=150),
)
def test_a_reply_is_written_and_read_as_by_the_codec(
    version: int, correlation_id: int, session_id: int, told: list[tuple[bytes, PartitionData]]
) -> None:
    response = FetchResponse(session_id=session_id)
    for topic_id, data in told:
        if not response.responses or response.responses[-1].topic_id != topic_id:
            response.responses.append(FetchableTopicResponse(topic_id=topic_id))
        response.responses[-1].partitions.append(data)
    parts = encode_replica_reply(
        correlation_id=correlation_id,
        session_id=session_id,
        answers=[
            Answer(
                topic_id=topic_id,
                index=data.partition_index,
                high_watermark=data.high_watermark,
                last_stable_offset=data.last_stable_offset,
                start_offset=data.log_start_offset,
                records=Held(data.records) if data.records else None,  # type: ignore[arg-type]
            )
            for topic_id, data in told
        ],
    )
    written = joined(parts)
    assert written == joined(encode_response(correlation_id, response, version))
    frame = memoryview(written)[4:]
    expected = decode_response(FetchResponse, version, frame)
    found = read_replica_reply(frame)
    assert found is not None
    assert found.session_id == session_id
    assert [
        (one.topic_id, one.index, one.high_watermark, one.start_offset, bytes(one.records))
        for one in found.partitions
    ] == [
        (
            topic.topic_id,
            one.partition_index,
            one.high_watermark,
            one.log_start_offset,
            bytes(one.records),  # type: ignore[arg-type]
        )
        for topic in expected.responses
        for one in topic.partitions
    ]


@pytest.mark.parametrize(
    "response",
    [
        FetchResponse(error_code=71),
        reply_of(error_code=6),
        reply_of(diverging_epoch=EpochEndOffset(epoch=1, end_offset=2)),
        reply_of(aborted_transactions=[]),
        reply_of(records=None),
        FetchResponse(node_endpoints=[NodeEndpoint(node_id=1, host="h", port=9)]),
    ],
)
def test_replies_of_another_shape_are_left_to_the_codec(response: FetchResponse) -> None:
    assert read_reply(response) is None


def test_a_reply_that_is_cut_is_not_read() -> None:
    frame = memoryview(joined(encode_response(7, reply_of(), 18)))[4:]
    assert read_replica_reply(frame) is not None
    for size in range(len(frame)):
        assert read_replica_reply(frame[:size]) is None
    assert read_replica_reply(memoryview(bytes(frame) + b"\0")) is None

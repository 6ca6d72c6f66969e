"""Requests and replies carry their size, and the header that their version asks for."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioHeader1
from kio.schema.request_header.v2.header import RequestHeader as KioHeader2
from kio.serial import entity_reader

from penstock.model.limit import TAGGED_FIELDS_MAX
from penstock.wire.api import FLEXIBLE_FROM, ApiKey, is_flexible
from penstock.wire.codec import Part, decode_exact
from penstock.wire.definition import Message
from penstock.wire.errors import MalformedMessage
from penstock.wire.header import (
    RequestHeader,
    decode_correlation_id,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.wire.messages.metadata import MetadataRequest, MetadataResponse
from penstock.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.wire.primitive import uvarint


def frame_of(parts: list[Part]) -> memoryview:
    """What follows the size, which is checked."""
    whole = b"".join(part for part in parts if isinstance(part, (bytes, bytearray, memoryview)))
    (size,) = struct.unpack_from(">i", whole)
    assert size == len(whole) - 4
    return memoryview(whole)[4:]


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "größe"])
@pytest.mark.parametrize("version", [0, 8, 9, 13])
def test_request_comes_back_with_its_header(version: int, client_id: str | None) -> None:
    request = MetadataRequest(topics=[])
    frame = frame_of(
        encode_request(request, version=version, correlation_id=42, client_id=client_id)
    )
    header, position = decode_request_header(frame)
    assert header == RequestHeader(ApiKey.METADATA, version, 42, client_id)
    assert decode_exact(MetadataRequest, version, frame, position) == request


@pytest.mark.parametrize(("version", "kio_header"), [(8, KioHeader1), (9, KioHeader2)])
def test_kio_reads_our_request_header(version: int, kio_header: type) -> None:
    request = MetadataRequest(topics=[])
    frame = frame_of(encode_request(request, version=version, correlation_id=42, client_id="us"))
    header, size = entity_reader(kio_header)(bytes(frame), 0)
    assert header.request_api_key == ApiKey.METADATA
    assert header.request_api_version == version
    assert header.correlation_id == 42
    assert header.client_id == "us"
    assert decode_request_header(frame)[1] == size


def test_tagged_fields_of_a_request_header_are_passed_over() -> None:
    frame = memoryview(bytes.fromhex("0003 0009 0000002a ffff 01 00 03 616263 00 00 00 00"))
    header, position = decode_request_header(frame)
    assert header == RequestHeader(ApiKey.METADATA, 9, 42, None)
    assert position == 16


def test_header_of_more_tagged_fields_than_anybody_writes_is_malformed() -> None:
    head = struct.pack(">hhih", ApiKey.METADATA, 9, 42, -1)
    bearable = head + uvarint(TAGGED_FIELDS_MAX) + bytes(2 * TAGGED_FIELDS_MAX)
    assert decode_request_header(memoryview(bearable))[1] == len(bearable)
    excessive = head + uvarint(TAGGED_FIELDS_MAX + 1) + bytes(2 * TAGGED_FIELDS_MAX + 2)
    with pytest.raises(MalformedMessage, match="more than 1000 tagged fields"):
        decode_request_header(memoryview(excessive))


@pytest.mark.parametrize("api_key", [-1, 93, 999, 32767])
def test_unknown_api_still_tells_who_asked(api_key: int) -> None:
    frame = memoryview(struct.pack(">hhih", api_key, 5, 42, 2) + b"us" + b"\xff\xff\xff")
    assert decode_request_header(frame) == (RequestHeader(api_key, 5, 42, "us"), 12)


def test_unknown_version_of_a_known_api_still_tells_who_asked() -> None:
    frame = memoryview(struct.pack(">hhih", ApiKey.API_VERSIONS, 999, 42, 2) + b"us\x00")
    assert decode_request_header(frame)[0] == RequestHeader(ApiKey.API_VERSIONS, 999, 42, "us")


@pytest.mark.parametrize(
    "data",
    ["", "0003", "0003 0001 0000002a", "0003 0001 0000002a fffe", "0003 0001 0000002a 0005 6162",
     "0003 0009 0000002a ffff", "0003 0009 0000002a ffff 01 00 7f"],
)  # fmt: skip
def test_bad_request_header_is_malformed(data: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_request_header(memoryview(bytes.fromhex(data)))


@given(data=st.binary(max_size=40))
def test_arbitrary_bytes_as_header_raise_nothing_else(data: bytes) -> None:
    frame = memoryview(data)
    for read in (
        lambda: decode_request_header(frame),
        lambda: decode_correlation_id(frame),
        lambda: decode_response(MetadataResponse, 12, frame),
        lambda: decode_response(ApiVersionsResponse, 0, frame),
    ):
        try:
            read()
        except MalformedMessage:
            continue


@pytest.mark.parametrize("version", [0, 8, 9, 13])
def test_reply_comes_back_with_its_correlation_id(version: int) -> None:
    reply = MetadataResponse(controller_id=-1 if version == 0 else 7)
    frame = frame_of(encode_response(42, reply, version))
    assert decode_correlation_id(frame) == 42
    assert decode_response(MetadataResponse, version, frame) == reply


def test_flexible_reply_has_tagged_fields_in_its_header() -> None:
    frame = frame_of(encode_response(42, MetadataResponse(), 9))
    assert bytes(frame[:5]) == b"\x00\x00\x00\x2a\x00"
    assert decode_exact(MetadataResponse, 9, frame, 5) == MetadataResponse()


@pytest.mark.parametrize("version", range(5))
def test_api_versions_reply_never_has_tagged_fields_in_its_header(version: int) -> None:
    reply = ApiVersionsResponse(error_code=35)
    frame = frame_of(encode_response(42, reply, version))
    assert decode_exact(ApiVersionsResponse, version, frame, 4) == reply
    assert decode_response(ApiVersionsResponse, version, frame) == reply


def test_api_versions_request_is_flexible_from_3() -> None:
    request = ApiVersionsRequest(client_software_name="us")
    frame = frame_of(encode_request(request, version=3, correlation_id=1, client_id=None))
    _, position = decode_request_header(frame)
    assert position == 11
    assert decode_exact(ApiVersionsRequest, 3, frame, position) == request


def test_records_of_a_request_are_not_copied() -> None:
    records = bytearray(b"batch")
    topic = TopicProduceData(partition_data=[PartitionProduceData(records=records)])
    request = ProduceRequest(topic_data=[topic])
    parts = encode_request(request, version=9, correlation_id=1, client_id="us")
    assert any(part is records for part in parts)
    frame_of(parts)


def test_api_table_and_messages_agree_on_what_is_flexible(
    message: type[Message], version: int
) -> None:
    if not message.__name__.endswith(("Request", "Response")):
        return
    flexible_from = message.FLEXIBLE_FROM
    assert FLEXIBLE_FROM.get(ApiKey(message.API_KEY)) == flexible_from
    flexible = flexible_from is not None and version >= flexible_from
    assert is_flexible(message.API_KEY, version) == flexible

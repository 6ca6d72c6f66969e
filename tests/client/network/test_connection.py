"""The sans-IO connection: handshake, pipelining, and peers that are no brokers."""

import pytest

from penstock.client.network.connection import Connection, Event, Ready, Reply, SendAgain
from penstock.client.network.errors import BrokenProtocol, UnsupportedByBroker
from penstock.model.error import ErrorCode
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.codec import Part
from penstock.wire.header import decode_request_header, encode_response
from penstock.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from penstock.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)


def joined(parts: list[Part]) -> bytes:
    return b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview))


def receive(connection: Connection, data: bytes) -> list[Event]:
    events = []
    while data:
        view = connection.receive_view()
        count = min(len(view), len(data))
        view[:count] = data[:count]
        data = data[count:]
        events += list(connection.received(count))
    return events


def versions(*served: tuple[int, int, int]) -> list[ApiVersion]:
    return [ApiVersion(api_key=k, min_version=low, max_version=high) for k, low, high in served]


def ready_connection() -> Connection:
    connection = Connection(client_id="test")
    header, _ = decode_request_header(memoryview(joined(connection.hello()))[4:])
    reply = ApiVersionsResponse(
        api_keys=versions((ApiKey.METADATA, 2, 9), (ApiKey.API_VERSIONS, 0, 4))
    )
    bytes_in = joined(encode_response(header.correlation_id, reply, header.api_version))
    assert receive(connection, bytes_in) == [
        Ready({ApiKey.METADATA: VersionRange(2, 9), ApiKey.API_VERSIONS: VersionRange(0, 4)})
    ]
    return connection


def test_version_is_the_newest_that_both_speak() -> None:
    connection = ready_connection()
    assert connection.version_for(MetadataRequest) == 9
    assert connection.version_for(MetadataRequest, at_most=5) == 5


def test_version_that_only_one_side_speaks_is_refused() -> None:
    connection = ready_connection()
    with pytest.raises(UnsupportedByBroker):
        connection.version_for(MetadataRequest, at_most=1)


def test_handshake_falls_back_to_the_version_that_an_older_broker_names() -> None:
    connection = Connection(client_id="test")
    first, _ = decode_request_header(memoryview(joined(connection.hello()))[4:])
    refusal = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=versions((ApiKey.API_VERSIONS, 0, 2)),
    )
    events = receive(connection, joined(encode_response(first.correlation_id, refusal, 0)))
    assert len(events) == 1
    again = events[0]
    assert isinstance(again, SendAgain)
    second, _ = decode_request_header(memoryview(joined(again.buffers))[4:])
    assert second.api_version == 2
    reply = ApiVersionsResponse(api_keys=versions((ApiKey.METADATA, 0, 4)))
    events = receive(connection, joined(encode_response(second.correlation_id, reply, 2)))
    assert events == [Ready({ApiKey.METADATA: VersionRange(0, 4)})]


def test_handshake_that_is_refused_in_every_version_ends() -> None:
    connection = Connection(client_id="test")
    data = joined(connection.hello())
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    header, _ = decode_request_header(memoryview(data)[4:])
    events = receive(connection, joined(encode_response(header.correlation_id, refusal, 0)))
    again = events[0]
    assert isinstance(again, SendAgain)
    header, _ = decode_request_header(memoryview(joined(again.buffers))[4:])
    assert header.api_version == 0
    with pytest.raises(UnsupportedByBroker):
        receive(connection, joined(encode_response(header.correlation_id, refusal, 0)))


def test_replies_are_matched_to_requests_sent_together() -> None:
    connection = ready_connection()
    sent = [
        connection.send(MetadataRequest(topics=[]), version=9, reply_type=MetadataResponse)[0]
        for _ in range(3)
    ]
    assert connection.in_flight == 3
    replies = b"".join(
        joined(encode_response(number, MetadataResponse(cluster_id=f"c{number}"), 9))
        for number in sent
    )
    events = receive(connection, replies)
    assert [event.correlation_id for event in events if isinstance(event, Reply)] == sent
    assert connection.in_flight == 0


def test_reply_out_of_order_breaks_the_connection() -> None:
    connection = ready_connection()
    first, _ = connection.send(MetadataRequest(), version=9, reply_type=MetadataResponse)
    second, _ = connection.send(MetadataRequest(), version=9, reply_type=MetadataResponse)
    assert second != first
    with pytest.raises(BrokenProtocol):
        receive(connection, joined(encode_response(second, MetadataResponse(), 9)))


def test_reply_to_nothing_breaks_the_connection() -> None:
    with pytest.raises(BrokenProtocol):
        receive(ready_connection(), joined(encode_response(77, MetadataResponse(), 9)))


@pytest.mark.parametrize(
    "garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\xff\xff\xff", b"\x00\x00\x00\x02ab"]
)
def test_bytes_of_something_else_break_the_connection(garbage: bytes) -> None:
    connection = Connection(client_id="test")
    connection.hello()
    with pytest.raises(BrokenProtocol):
        receive(connection, garbage)


def test_request_without_an_answer_is_not_waited_for() -> None:
    connection = ready_connection()
    connection.send(MetadataRequest(), version=9, reply_type=None)
    assert connection.in_flight == 0


def test_request_that_cannot_be_encoded_is_not_waited_for() -> None:
    connection = ready_connection()
    no_text = MetadataRequest(topics=[MetadataRequestTopic(name="\udcff")])
    with pytest.raises(UnicodeEncodeError):
        connection.send(no_text, version=9, reply_type=MetadataResponse)
    assert connection.in_flight == 0
    sent, _ = connection.send(MetadataRequest(), version=9, reply_type=MetadataResponse)
    events = receive(connection, joined(encode_response(sent, MetadataResponse(), 9)))
    assert [event.correlation_id for event in events if isinstance(event, Reply)] == [sent]

"""Requests for metrics: bytes in, a request or a refusal out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metrics.http import (
    NO_HTTP,
    TOO_LARGE,
    Refusal,
    Request,
    answer,
    read_request,
    refusal,
)
from penstock.model.limit import METRICS_REQUEST_BYTES_MAX


def asked(*lines: str) -> bytes:
    return "\r\n".join((*lines, "", "")).encode("utf-8")


def test_the_page_is_asked_for() -> None:
    request = asked("GET /metrics HTTP/1.1", "Host: x", "ACCEPT: text/plain;version=1.0.0")
    assert read_request(request) == Request(accept="text/plain;version=1.0.0", wants_body=True)
    assert read_request(asked("HEAD /metrics?a=b HTTP/1.0")) == Request(accept="", wants_body=False)


def test_several_headers_of_a_name_are_one_list() -> None:
    request = asked("GET /metrics HTTP/1.1", "Accept: a/b", "accept: c/d", "no colon")
    assert read_request(request) == Request(accept="a/b,c/d", wants_body=True)


@pytest.mark.parametrize(
    ("first", "status"),
    [
        ("POST /metrics HTTP/1.1", 405),
        ("GET / HTTP/1.1", 404),
        ("GET /metrics/ HTTP/1.1", 404),
        ("GET http://x/metrics HTTP/1.1", 404),
        ("GET /metrics HTTP/2.0", 505),
        ("GET /metrics HTTP/1.1.1", 505),
        ("GET /metrics", 400),
        ("GET  /metrics HTTP/1.1", 400),
        ("GET /metrics SPDY/1", 400),
        ("GET /mé HTTP/1.1", 400),
        ("get /metrics HTTP/1.1", 400),
    ],
)
def test_what_is_not_served_is_refused(first: str, status: int) -> None:
    refused = read_request(asked(first))
    assert isinstance(refused, Refusal)
    assert refused.status == status


def test_another_protocol_is_refused_by_its_first_byte() -> None:
    for first in (b"\x16\x03\x01", b"\x00\x00\x00\x10", b"\n", b"{"):
        assert read_request(first) is NO_HTTP


def test_more_bytes_are_waited_for_until_there_are_too_many() -> None:
    assert read_request(b"") is None
    assert read_request(b"GET /metrics HTTP/1.1\r\nHost: x\r\n") is None
    assert read_request(b"G" * (METRICS_REQUEST_BYTES_MAX - 1)) is None
    assert read_request(b"G" * METRICS_REQUEST_BYTES_MAX) is TOO_LARGE


@given(st.binary(max_size=300))
def test_any_bytes_are_answered_or_waited_for(received: bytes) -> None:
    found = read_request(received + b"\r\n\r\n")
    assert isinstance(found, Request | Refusal)


def test_an_answer_says_how_long_it_is_and_that_the_connection_ends() -> None:
    head, _, body = answer(b"text", "text/plain").partition(b"\r\n\r\n")
    assert body == b"text"
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"Content-Type: text/plain",
        b"Content-Length: 4",
        b"Connection: close",
    ]
    assert answer(b"text", "text/plain", wants_body=False) == head + b"\r\n\r\n"


def test_a_refusal_is_one_line() -> None:
    head, _, body = refusal(TOO_LARGE).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert body == TOO_LARGE.line.encode() + b"\n"

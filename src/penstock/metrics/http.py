"""As much of HTTP as a scrape needs: one request for one page, one answer, and the connection ends.

    GET /metrics HTTP/1.1\\r\\n           the first line
    Accept: ...\\r\\n                     says which format is wanted; other headers are passed over
    \\r\\n                                ends the request: there is no body

Bytes go in, a `Request` or a `Refusal` comes out. A refusal is one line in plain text, which holds
nothing of what was sent. Start reading at `read_request`.
"""

from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import METRICS_REQUEST_BYTES_MAX

PAGE = "/metrics"
HEAD_END = b"\r\n\r\n"
PLAIN_TEXT = "text/plain; charset=utf-8"
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    accept: str  # what the client asks for, "" if it does not say
    wants_body: bool  # not so for HEAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    status: int
    line: str


NO_HTTP = Refusal(status=400, line=f"this is no request of HTTP: GET {PAGE} is answered here")
TOO_LARGE = Refusal(
    status=431, line=f"a request may have {METRICS_REQUEST_BYTES_MAX} bytes, and this one has more"
)
TOO_SLOW = Refusal(status=408, line="the request was not complete in time")
FAILED = Refusal(status=500, line="the metrics could not be gathered: the node's log says why")
TOO_MANY = Refusal(status=503, line="as many as may ask at once do so already")


def read_request(received: bytes) -> Request | Refusal | None:
    """What was asked; None while more bytes are needed."""
    # A client of another protocol may wait for our answer to its first bytes, so look at once.
    if received and not b"A" <= received[:1] <= b"Z":
        return NO_HTTP
    head, end, _ = received.partition(HEAD_END)
    if not end:
        return TOO_LARGE if len(received) >= METRICS_REQUEST_BYTES_MAX else None
    if not head.isascii():
        return NO_HTTP
    first, *lines = head.decode("ascii").split("\r\n")
    if not all(line.replace("\t", " ").isprintable() for line in (first, *lines)):
        return NO_HTTP
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/"):
        return NO_HTTP
    method, target, version = words
    if version not in ("HTTP/1.0", "HTTP/1.1"):
        return Refusal(status=505, line="HTTP/1.1 is spoken here")
    if method not in ("GET", "HEAD"):
        return Refusal(status=405, line=f"GET {PAGE} is answered here, and no other method")
    if target.partition("?")[0] != PAGE:
        return Refusal(status=404, line=f"there is one page, {PAGE}")
    return Request(accept=_header(lines, "accept"), wants_body=method == "GET")


def answer(body: bytes, content_type: str, *, wants_body: bool = True) -> bytes:
    return _head(200, len(body), content_type) + (body if wants_body else b"")


def refusal(refused: Refusal) -> bytes:
    body = f"{refused.line}\n".encode()
    return _head(refused.status, len(body), PLAIN_TEXT) + body


def _head(status: int, body_bytes: int, content_type: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {REASONS[status]}",
        f"Content-Type: {content_type}",
        f"Content-Length: {body_bytes}",
        "Connection: close",
    ]
    if status == 405:
        lines.append("Allow: GET, HEAD")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _header(lines: list[str], wanted: str) -> str:
    values = [
        value.strip()
        for name, colon, value in (line.partition(":") for line in lines)
        if colon and name.strip().lower() == wanted
    ]
    return ",".join(values)

"""One connection to a broker, without the connection: requests to bytes, bytes to events.

    hello()  ──bytes──▶            the first request, ApiVersions, in the newest version we speak
    received ──▶ SendAgain         an older ApiVersions is spoken; the reply says which
             ──▶ Ready             versions are known; from here on requests may be sent
    send()   ──bytes──▶            any number of requests, without waiting for replies
    received ──▶ Reply             replies, in the order of the requests, as the protocol promises

What a peer does wrong is a BrokenProtocol: a reply to nothing, out of order, or bytes that do not
decode. The connection is of no more use then.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import NamedTuple

from penstock.client.network.errors import BrokenProtocol, UnsupportedByBroker
from penstock.model.error import ErrorCode
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import MIB
from penstock.wire.api import ApiKey, VersionRange
from penstock.wire.codec import Part
from penstock.wire.definition import Message
from penstock.wire.errors import MalformedMessage
from penstock.wire.framing import FrameReader
from penstock.wire.header import decode_correlation_id, decode_response, encode_request
from penstock.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

REPLY_BYTES_MAX = 512 * MIB
CORRELATION_ID_MAX = 2**31 - 1
SOFTWARE_NAME = "penstock"
SOFTWARE_VERSION = "0.1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What the cluster has agreed on (KIP-584), as of an epoch; nothing where no broker tells."""

    epoch: int = -1
    levels: Mapping[str, int] = field(default_factory=dict)
    supported: Mapping[str, VersionRange] = field(default_factory=dict)  # by the one that told


@dataclass(frozen=True, slots=True)
class SendAgain:
    """Send these bytes: the handshake goes on in an older version."""

    buffers: list[Part]


@dataclass(frozen=True, slots=True)
class Ready:
    """The handshake is done."""

    versions: dict[int, VersionRange]


@dataclass(slots=True)
class Reply:
    """The answer to one request. Record bytes in it are its own, not the receive buffer's."""

    correlation_id: int
    message: Message


Event = SendAgain | Ready | Reply


class _Awaited(NamedTuple):
    correlation_id: int
    reply_type: type[Message]
    version: int


class Connection:
    """See the module."""

    def __init__(self, *, client_id: str) -> None:
        self.client_id = client_id
        self.versions: dict[int, VersionRange] | None = None
        self.features = Features()
        self._frames = FrameReader(frame_bytes_max=REPLY_BYTES_MAX)
        self._awaited: deque[_Awaited] = deque()
        self._next_correlation_id = 0

    @property
    def in_flight(self) -> int:
        """Requests whose reply is still to come."""
        return len(self._awaited)

    def version_for(self, request: type[Message], *, at_most: int | None = None) -> int:
        """The newest version of a request that both sides speak."""
        assert self.versions is not None, "the handshake comes first"
        theirs = self.versions.get(request.API_KEY)
        ours = request.VERSIONS
        newest = ours.max if at_most is None else min(ours.max, at_most)
        if theirs is None or theirs.min > newest or theirs.max < ours.min:
            spoken = "not at all" if theirs is None else f"in versions {theirs}"
            raise UnsupportedByBroker(
                f"the broker speaks {ApiKey(request.API_KEY).name} {spoken};"
                f" needed is one of {ours.min}-{newest}"
            )
        return min(newest, theirs.max)

    def hello(self) -> list[Part]:
        """The bytes to send first."""
        assert self.versions is None
        return self._hello(ApiVersionsRequest.VERSIONS.max)

    def send(
        self, request: Message, *, version: int, reply_type: type[Message] | None
    ) -> tuple[int, list[Part]]:
        """A correlation id, and bytes to send; without a `reply_type` no reply is awaited."""
        assert version in request.VERSIONS, (request, version)
        parts = encode_request(
            request,
            version=version,
            correlation_id=self._next_correlation_id,
            client_id=self.client_id,
        )
        # Only now: no reply comes to a request that cannot be encoded.
        return self.begin(reply_type, version=version), parts

    def begin(self, reply_type: type[Message] | None, *, version: int) -> int:
        """The correlation id of a request that the caller encodes."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & CORRELATION_ID_MAX
        if reply_type is not None:
            self._awaited.append(_Awaited(correlation_id, reply_type, version))
        return correlation_id

    def receive_view(self) -> memoryview:
        """Where to put what comes next; then tell `received` how much it was."""
        return self._frames.receive_view()

    def received(self, count: int) -> Iterator[Event]:
        """What the bytes meant. Each event must be taken before more is received."""
        self.add_received(count)
        while (event := self.next_event()) is not None:
            yield event

    def add_received(self, count: int) -> None:
        """As `received`, for who takes the events one by one."""
        self._frames.received(count)

    def next_event(self) -> Event | None:
        """What the bytes received so far mean next; None until there are more of them."""
        try:
            frame = self._frames.next_frame()
            return None if frame is None else self._event(frame)
        except MalformedMessage as error:
            raise BrokenProtocol(str(error)) from error

    def next_frame(self) -> memoryview | None:
        """As `next_event`, after the handshake, for who decodes replies: the next one as it was
        received.
        """
        assert self.versions is not None, "the handshake comes first"
        try:
            frame = self._frames.next_frame()
            if frame is not None:
                self._take_awaited(frame)
        except MalformedMessage as error:
            raise BrokenProtocol(str(error)) from error
        return frame

    def _hello(self, version: int) -> list[Part]:
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        return self.send(request, version=version, reply_type=ApiVersionsResponse)[1]

    def _event(self, frame: memoryview) -> Event:
        awaited = self._take_awaited(frame)
        if self.versions is None:
            return self._handshake(frame, awaited.version)
        # Copy 1 of 1: the receive buffer is used again while the caller still reads its reply.
        own = memoryview(bytes(frame))
        message = decode_response(awaited.reply_type, awaited.version, own)
        return Reply(awaited.correlation_id, message)

    def _take_awaited(self, frame: memoryview) -> _Awaited:
        if not self._awaited:
            raise BrokenProtocol("a reply came to no request")
        awaited = self._awaited.popleft()
        found = decode_correlation_id(frame)
        if found != awaited.correlation_id:
            raise BrokenProtocol(
                f"the reply to request {awaited.correlation_id} was due, and {found} came"
            )
        return awaited

    def _handshake(self, frame: memoryview, version: int) -> Event:
        # A broker that does not know our version answers in version 0 (KIP-511). Both begin with
        # the error code.
        code = int.from_bytes(frame[4:6], "big", signed=True)
        if code == ErrorCode.UNSUPPORTED_VERSION:
            reply = decode_response(ApiVersionsResponse, 0, frame)
            return SendAgain(self._hello(_older(reply, version)))
        reply = decode_response(ApiVersionsResponse, version, frame)
        if code != ErrorCode.NONE:
            raise BrokenProtocol(f"the broker refused the handshake with error {code}")
        self.versions = {
            api.api_key: VersionRange(api.min_version, api.max_version)
            for api in reply.api_keys
            if 0 <= api.min_version <= api.max_version
        }
        self.features = features_of(reply)
        return Ready(self.versions)


def features_of(reply: ApiVersionsResponse) -> Features:
    return Features(
        epoch=reply.finalized_features_epoch,
        levels={one.name: one.max_version_level for one in reply.finalized_features},
        supported={
            one.name: VersionRange(one.min_version, one.max_version)
            for one in reply.supported_features
            if 0 <= one.min_version <= one.max_version
        },
    )


def _older(reply: ApiVersionsResponse, version: int) -> int:
    """Which version of ApiVersions to try next; a broker that says nothing of it is asked in
    version 0.
    """
    offered = [api for api in reply.api_keys if api.api_key == ApiKey.API_VERSIONS]
    older = min(offered[0].max_version, version - 1) if offered else 0
    if version == 0 or older < 0:
        raise UnsupportedByBroker("the broker speaks no version of the handshake that we speak")
    return older

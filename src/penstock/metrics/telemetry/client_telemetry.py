"""All that a broker knows of clients that push metrics; one for each broker that shows them.

Start reading at `ask` and `push`; who may do so is decided in `instances`.
"""

from collections import Counter
from collections.abc import Callable

from penstock.metrics.telemetry.instances import Client, ClientInstances, Instance, Push
from penstock.metrics.telemetry.otlp import MalformedTelemetry, Steps, read_points
from penstock.metrics.telemetry.series import ClientSeries
from penstock.model.error import ErrorCode
from penstock.model.limit import (
    TELEMETRY_EXPIRE_MS,
    TELEMETRY_SERIES_PER_CLIENT_MAX,
    TELEMETRY_TEXT_CHARS_MAX,
)
from penstock.model.settings.client_metrics import Subscription
from penstock.records.compression import Codec, decompress
from penstock.records.errors import CorruptBatch, OversizedBatch
from penstock.wire.messages.push_telemetry import PushTelemetryRequest

Peer = tuple[str, int]  # host and port
UNKNOWN_SOFTWARE = ("", "")
# In the order in which a client chooses, as Apache Kafka names them.
ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
# How a push can end.
RESULTS = (
    ErrorCode.NONE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.TELEMETRY_TOO_LARGE,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
)


class ClientTelemetry:
    def __init__(
        self,
        *,
        push_bytes_max: int,
        random_bytes: Callable[[int], bytes],
        note_costly: Callable[[str], None],
    ) -> None:
        self.push_bytes_max = push_bytes_max
        self.accepted_codecs = tuple(int(codec) for codec in ACCEPTED_CODECS)
        self.instances = ClientInstances(
            push_bytes_max=push_bytes_max, random_bytes=random_bytes, note_costly=note_costly
        )
        self.series = ClientSeries()
        self.pushes: Counter[ErrorCode] = Counter()
        self._software: dict[Peer, tuple[str, str]] = {}  # of open connections
        self._instance_of: dict[Peer, bytes] = {}  # the same: the one that it spoke of last
        self._expired_ms: int | None = None  # when silent clients were last looked for

    def subscribe(self, name: str, subscription: Subscription | None) -> None:
        self.instances.subscribe(name, subscription)

    def note_software(self, peer: Peer, *, name: str, version: str) -> None:
        """A client says what it is when it asks for the APIs, even before it logs in."""
        self._software[peer] = (_cut(name), _cut(version))

    def note_closed(self, peer: Peer) -> None:
        """A connection has ended. What its client has pushed is shown a while longer."""
        self._software.pop(peer, None)
        instance_id = self._instance_of.pop(peer, None)
        if instance_id is not None:
            self.instances.forget(instance_id)

    def ask(
        self, instance_id: bytes, peer: Peer, client_id: str, *, now_ms: int
    ) -> tuple[bytes, Instance] | ErrorCode:
        found = self.instances.ask(instance_id, self._client(peer, client_id), now_ms=now_ms)
        if isinstance(found, tuple):
            self._instance_of[peer] = found[0]
        return found

    def push(
        self,
        request: PushTelemetryRequest,
        metrics: bytes,
        peer: Peer,
        client_id: str,
        *,
        now_ms: int,
    ) -> Steps[ErrorCode]:
        """Reads the metrics of the request, in steps, and keeps them at the end, or none of them.
        Whether they are taken is decided before the first step.
        """
        push = Push(
            instance_id=request.client_instance_id,
            subscription_id=request.subscription_id,
            is_terminating=request.terminating,
            codec=request.compression_type,
            size_bytes=len(metrics),
        )
        if self._expired_ms is None or now_ms - self._expired_ms >= TELEMETRY_EXPIRE_MS:
            self.expire(now_ms=now_ms)  # maybe nobody scrapes
        found = self.instances.push(push, self._client(peer, client_id), now_ms=now_ms)
        if isinstance(found, Instance):
            self._instance_of[peer] = push.instance_id
            error = yield from self._take(push, found, metrics, now_ms)
            found.last_error = error
        else:
            error = found
        self.pushes[error] += 1
        return error

    def expire(self, *, now_ms: int) -> None:
        self._expired_ms = now_ms
        self.instances.expire(now_ms=now_ms)
        self.series.expire(now_ms=now_ms)

    def _take(
        self, push: Push, instance: Instance, metrics: bytes, now_ms: int
    ) -> Steps[ErrorCode]:
        if not metrics:
            return ErrorCode.NONE
        try:
            plain = decompress(Codec(push.codec), metrics, bytes_max=self.push_bytes_max)
            read = yield from read_points(bytes(plain), points_max=TELEMETRY_SERIES_PER_CLIENT_MAX)
        except OversizedBatch:
            return ErrorCode.TELEMETRY_TOO_LARGE
        except (CorruptBatch, MalformedTelemetry):
            return ErrorCode.INVALID_RECORD
        self.series.left_out += read.left_out
        yield from self.series.take(push.instance_id, instance, read.points, now_ms=now_ms)
        return ErrorCode.NONE

    def _client(self, peer: Peer, client_id: str) -> Client:
        host, port = peer
        name, version = self._software.get(peer, UNKNOWN_SOFTWARE)
        return Client(
            client_id=_cut(client_id),
            software_name=name,
            software_version=version,
            host=host,
            port=port,
        )


def _cut(text: str) -> str:
    """Of what a client says it is, no more is kept: neither shown nor matched by patterns."""
    return text[:TELEMETRY_TEXT_CHARS_MAX]

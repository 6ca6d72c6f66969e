"""Clients that push metrics: what each one is asked for, and whether it may push now.

The broker remembers a client instance from its first request. The subscriptions that match the
client together are its own: the metrics of all of them, at the shortest interval, which is never
above INTERVAL_MS_DEFAULT. Their checksum is the subscription id, by which a push shows that it
knows them. As in Apache Kafka:

    asks again before its interval is over   THROTTLING_QUOTA_EXCEEDED, unless its last push was
                                             refused because of the subscription or the compression
    pushes before its interval is over       THROTTLING_QUOTA_EXCEEDED, but once after each answer,
                                             since clients add jitter; and the last push of all
    pushes with another subscription id      UNKNOWN_SUBSCRIPTION_ID: it asks again
    pushes after its last push of all        INVALID_REQUEST
    any subscription changes                 the client begins anew

Bounds: TELEMETRY_INSTANCES_MAX clients, of which the least recently seen is forgotten, and
TELEMETRY_SUBSCRIPTIONS_MAX subscriptions. Each has a number of steps of its own to match a client;
one that needs more does not match. A client is asked for TELEMETRY_PREFIXES_MAX names at most, the
first ones in their order.
"""

import struct
from collections.abc import Callable, Mapping

from penstock.model.error import ErrorCode
from penstock.model.identity import id_text, random_id
from penstock.model.lazy_dataclass import dataclass
from penstock.model.limit import (
    TELEMETRY_INSTANCE_MS_MIN,
    TELEMETRY_INSTANCES_MAX,
    TELEMETRY_PREFIXES_MAX,
    TELEMETRY_SUBSCRIPTIONS_MAX,
)
from penstock.model.regex.pattern import TooManySteps
from penstock.model.settings.client_metrics import (
    ALL_METRICS,
    INTERVAL_MS_DEFAULT,
    Subscription,
)
from penstock.records.checksum import crc32c
from penstock.records.compression import Codec

NO_ID = bytes(16)
RESERVED_IDS = (NO_ID, bytes(15) + b"\x01")  # what no client instance may be called
INTERVALS_UNTIL_FORGOTTEN = 3
NEVER_MS = -(1 << 62)
MAY_ASK_AGAIN_AFTER = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
CODECS = frozenset(int(codec) for codec in Codec)
HALVES = struct.Struct(">QQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who a client says that it is, and where it is."""

    client_id: str
    software_name: str
    software_version: str
    host: str
    port: int

    def attributes(self, instance_id: bytes) -> Mapping[str, str]:
        """What patterns of subscriptions are about."""
        return {
            "client_id": self.client_id,
            "client_instance_id": id_text(instance_id),
            "client_software_name": self.software_name,
            "client_software_version": self.software_version,
            "client_source_address": self.host,
            "client_source_port": str(self.port),
        }


@dataclass(slots=True, kw_only=True)
class Instance:
    client: Client
    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int
    version: int  # of the subscriptions
    asked_ms: int = NEVER_MS
    pushed_ms: int = NEVER_MS
    expires_ms: int = 0
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE

    @property
    def lifetime_ms(self) -> int:
        return max(TELEMETRY_INSTANCE_MS_MIN, INTERVALS_UNTIL_FORGOTTEN * self.interval_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """What of a push decides whether it is taken."""

    instance_id: bytes
    subscription_id: int
    is_terminating: bool
    codec: int
    size_bytes: int


class ClientInstances:
    def __init__(
        self,
        *,
        push_bytes_max: int,
        random_bytes: Callable[[int], bytes],
        note_costly: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`note_costly` is called once with the name of a subscription that takes too many steps,
        and again only after a change of it.
        """
        self._push_bytes_max = push_bytes_max
        self._note_costly = note_costly
        self._costly: set[str] = set()  # names of subscriptions
        self._random_bytes = random_bytes
        self._subscriptions: dict[str, Subscription] = {}
        self._version = 0  # raised by each change of them
        self._by_id: dict[bytes, Instance] = {}  # the least recently seen first

    def __len__(self) -> int:
        return len(self._by_id)

    def subscribe(self, name: str, subscription: Subscription | None) -> None:
        """None ends it."""
        self._costly.discard(name)
        if subscription is not None:
            self._subscriptions[name] = subscription
            assert len(self._subscriptions) <= TELEMETRY_SUBSCRIPTIONS_MAX, "others end before"
        elif self._subscriptions.pop(name, None) is None:
            return
        self._version += 1

    def ask(
        self, instance_id: bytes, client: Client, *, now_ms: int
    ) -> tuple[bytes, Instance] | ErrorCode:
        """What the client is asked for, and the id that it has from now on."""
        if instance_id == NO_ID:
            instance_id = self._new_id()
        instance = self._instance(instance_id, client, now_ms)
        since_ms = now_ms - max(instance.asked_ms, instance.pushed_ms)
        if since_ms >= instance.interval_ms:
            instance.asked_ms = now_ms
        elif instance.last_error not in MAY_ASK_AGAIN_AFTER:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        instance.last_error = ErrorCode.NONE
        return instance_id, instance

    def push(self, push: Push, client: Client, *, now_ms: int) -> Instance | ErrorCode:
        """The instance whose metrics are taken, or why they are not."""
        if push.instance_id in RESERVED_IDS:
            return ErrorCode.INVALID_REQUEST
        instance = self._instance(push.instance_id, client, now_ms)
        error = instance.last_error = self._judge(instance, push, now_ms)
        instance.is_terminating = push.is_terminating
        return instance if error == ErrorCode.NONE else error

    def forget(self, instance_id: bytes) -> None:
        self._by_id.pop(instance_id, None)

    def expire(self, *, now_ms: int) -> None:
        """Forgets who has been silent for too long."""
        for instance_id in [one for one, it in self._by_id.items() if it.expires_ms <= now_ms]:
            del self._by_id[instance_id]

    def _judge(self, instance: Instance, push: Push, now_ms: int) -> ErrorCode:
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        is_first = instance.asked_ms > instance.pushed_ms
        if is_first or now_ms - instance.pushed_ms >= instance.interval_ms:
            instance.pushed_ms = now_ms
        elif not push.is_terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != instance.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if push.codec not in CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if push.size_bytes > self._push_bytes_max:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _instance(self, instance_id: bytes, client: Client, now_ms: int) -> Instance:
        instance = self._by_id.pop(instance_id, None)
        if instance is None or instance.expires_ms <= now_ms:
            instance = self._subscribed(instance_id, client)
        elif instance.version < self._version:
            instance = self._subscribed(instance_id, instance.client)
        if len(self._by_id) >= TELEMETRY_INSTANCES_MAX:
            del self._by_id[next(iter(self._by_id))]
        instance.expires_ms = now_ms + instance.lifetime_ms
        self._by_id[instance_id] = instance
        return instance

    def _subscribed(self, instance_id: bytes, client: Client) -> Instance:
        attributes = client.attributes(instance_id)
        metrics: set[str] = set()
        interval_ms = INTERVAL_MS_DEFAULT  # where Apache Kafka's minimum begins too
        for name, subscription in self._subscriptions.items():
            if self._is_for(name, subscription, attributes):
                metrics |= subscription.metrics
                interval_ms = min(interval_ms, subscription.interval_ms)
        if ALL_METRICS in metrics:
            metrics = {ALL_METRICS}
        wanted = tuple(sorted(metrics)[:TELEMETRY_PREFIXES_MAX])
        return Instance(
            client=client,
            subscription_id=subscription_id(wanted, interval_ms, instance_id),
            metrics=wanted,
            interval_ms=interval_ms,
            version=self._version,
        )

    def _is_for(self, name: str, subscription: Subscription, attributes: Mapping[str, str]) -> bool:
        try:
            return subscription.is_for(attributes)
        except TooManySteps:
            if name not in self._costly:
                self._costly.add(name)
                self._note_costly(name)
            return False

    def _new_id(self) -> bytes:
        while True:
            instance_id = random_id(self._random_bytes)
            if instance_id not in self._by_id:
                return instance_id


def subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: bytes) -> int:
    """The checksum of what is asked for, mixed with the id of the client; as a signed number."""
    checksum = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode())
    high, low = HALVES.unpack(instance_id)
    mixed: int = high ^ low
    number = checksum ^ (mixed >> 32) ^ (mixed & 0xFFFF_FFFF)
    return number - 2**32 if number >= 2**31 else number

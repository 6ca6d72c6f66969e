"""Whatever clients push and say, a broker keeps a bounded part of it, also when nobody scrapes."""

from penstock.metrics.telemetry.client_telemetry import ClientTelemetry
from penstock.metrics.telemetry.instances import NO_ID, Instance
from penstock.model.error import ErrorCode
from penstock.model.limit import TELEMETRY_SERIES_MAX, TELEMETRY_TEXT_CHARS_MAX
from penstock.model.settings.client_metrics import parse_subscription
from penstock.wire.messages.push_telemetry import PushTelemetryRequest
from rig.otlp import gauge, metrics_data, point

PEER = ("10.0.0.1", 40_000)
LONG = "x" * 30_000


class Broker:
    def __init__(self) -> None:
        self._ids = 0
        self.telemetry = ClientTelemetry(
            push_bytes_max=1 << 20,
            random_bytes=self._random_bytes,
            note_costly=lambda name: None,
        )
        config = {"metrics": "*", "interval.ms": "10000"}
        self.telemetry.subscribe("all", parse_subscription(config))

    def asks(self, client_id: str, *, at_ms: int = 0) -> tuple[bytes, Instance]:
        found = self.telemetry.ask(NO_ID, PEER, client_id, now_ms=at_ms)
        assert isinstance(found, tuple)
        return found

    def pushes(self, metrics: bytes, *, at_ms: int) -> None:
        """As a client that nobody knows yet."""
        instance_id, instance = self.asks("c", at_ms=at_ms)
        request = PushTelemetryRequest(
            client_instance_id=instance_id, subscription_id=instance.subscription_id
        )
        steps = self.telemetry.push(request, metrics, PEER, "c", now_ms=at_ms)
        while True:
            try:
                next(steps)
            except StopIteration as finished:
                assert finished.value == ErrorCode.NONE
                break
        self.telemetry.series.check()

    def _random_bytes(self, count: int) -> bytes:
        self._ids += 1
        return self._ids.to_bytes(count, "little")


def test_of_what_a_client_says_it_is_only_the_beginning_is_kept() -> None:
    broker = Broker()
    broker.telemetry.note_software(PEER, name=LONG, version=LONG)
    _, instance = broker.asks(LONG)
    client = instance.client
    for text in (client.client_id, client.software_name, client.software_version):
        assert len(text) == TELEMETRY_TEXT_CHARS_MAX
    [kept] = broker.telemetry._software.values()
    assert [len(text) for text in kept] == [TELEMETRY_TEXT_CHARS_MAX] * 2


def test_pushes_without_values_leave_no_series_and_no_clients() -> None:
    broker = Broker()
    for _ in range(5):
        broker.pushes(metrics_data(group_id="g"), at_ms=0)
    assert broker.telemetry.series.clients == 0


def test_series_of_silent_clients_end_with_a_later_push_though_nobody_scrapes() -> None:
    broker = Broker()
    metrics = metrics_data(*(gauge(f"m{one}", point(1)) for one in range(1000)))
    for _ in range(TELEMETRY_SERIES_MAX // 1000):
        broker.pushes(metrics, at_ms=0)
    assert broker.telemetry.series.count == TELEMETRY_SERIES_MAX
    broker.pushes(metrics, at_ms=60_000)
    assert broker.telemetry.series.clients == 1
    assert broker.telemetry.series.count == 1000
    assert len(broker.telemetry.instances) == 1
    assert broker.telemetry.series.left_out == 0

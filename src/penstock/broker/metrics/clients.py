"""What clients have pushed, and how their pushes ended."""

from penstock.metrics.family import Source, Steps, counter, gauge
from penstock.metrics.telemetry.client_telemetry import RESULTS, ClientTelemetry
from penstock.world.ports import Clock

INSTANCES = gauge(
    "kafka_server_client_metrics_instance_count",
    "Clients that have asked which metrics to push, and are still there.",
)
SERIES = gauge("penstock_telemetry_series", "Series that clients have pushed and that are told.")
LEFT_OUT = counter(
    "penstock_telemetry_left_out_total",
    "Values that clients pushed and that are not told: too many, too large, or no metrics.",
)
PUSHES = counter(
    "penstock_telemetry_pushes_total",
    "Pushes of clients, by the error that they were answered with; NONE for those that were taken.",
    "error",
)


def client_metrics(telemetry: ClientTelemetry, clock: Clock) -> Source:
    """The series of clients have families of their own, which are made when they are told."""

    def samples() -> Steps:
        telemetry.expire(now_ms=clock.monotonic_ms())
        yield INSTANCES.sample(len(telemetry.instances))
        yield SERIES.sample(telemetry.series.count)
        yield LEFT_OUT.sample(telemetry.series.left_out)
        for error in RESULTS:
            yield PUSHES.sample(telemetry.pushes[error], error.name)
        yield from telemetry.series.samples()

    return Source((INSTANCES, SERIES, LEFT_OUT, PUSHES), samples)

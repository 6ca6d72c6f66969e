"""A node that evaluates alerts quickly and sends them to a receiver, and what is in their topic."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.alerts.delivery import AlertRecords
from penstock.client.admin.alert_reports import read_alert_records
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import Refused
from penstock.world.clock import RealClock
from penstock.world.disk import RealDisk
from penstock.world.tcp import TcpNetwork
from rig.running_node import RunningNode, running_node
from rig.webhook import Receiver

TOPIC = "__penstock_alerts"
WAIT_SECONDS = 60
# A fault is told at once, and its end soon.
QUICK = {
    "penstock_alerts_enable": "true",
    "penstock_alerts_interval_ms": "100",
    "penstock_alerts_for_ms": "200",
    "penstock_alerts_clear_ms": "200",
    "offsets_topic_num_partitions": "1",
    "transaction_state_log_num_partitions": "1",
}
NOTHING_IS_FULL = "1"


class FillingDisk(RealDisk):
    """As full as a test says, but for the bytes."""

    free_part = 0.5

    def free_bytes(self, path: str) -> int:
        return int(super().total_bytes(path) * self.free_part)


@contextlib.contextmanager
def node_with_alerts(
    data: Path, hook: Receiver, *, disk: RealDisk | None = None, **settings: str
) -> Iterator[RunningNode]:
    """Its own disk may be full enough for an alert: that is none here unless asked for."""
    given = {**QUICK, "penstock_alerts_disk_ratio": NOTHING_IS_FULL, **settings}
    with running_node(data, disk=disk, penstock_alerts_webhook_url=hook.url, **given) as node:
        yield node


def states_in_topic(node: RunningNode) -> dict[str, str]:
    """The last state of each key."""
    reports = records_in_topic(node).reports
    return {key.decode(): report.state.value for key, report in reports.items()}


def delivered(node: RunningNode) -> dict[str, str]:
    """The last state of each key that the webhook has taken, by the topic."""
    deliveries = records_in_topic(node).deliveries
    return {key.decode(): one.state.value for key, one in deliveries.items()}


def records_in_topic(node: RunningNode) -> AlertRecords:
    async def read() -> AlertRecords:
        addresses = parse_addresses(node.bootstrap)
        async with Cluster(TcpNetwork(), RealClock(), addresses) as cluster:
            try:
                return await read_alert_records(cluster, TOPIC)
            except Refused:
                return AlertRecords()  # nobody has made it yet

    return node.run(read())


def create(node: RunningNode, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    [made] = admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values()
    made.result(WAIT_SECONDS)


def write(node: RunningNode, topic: str, count: int = 1, *, age_ms: int = 0) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap})
    at_ms = int(time.time() * 1000) - age_ms
    for _ in range(count):
        producer.produce(topic, b"v", timestamp=at_ms)
    producer.flush()

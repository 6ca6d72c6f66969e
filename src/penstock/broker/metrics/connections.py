"""The connections of clients and of other nodes, by listener, and the bounds on replication."""

from collections import Counter
from collections.abc import Callable, Iterable

from penstock.broker.network.server import Server
from penstock.metrics.family import Source, Steps, gauge
from penstock.model.settings.replication import ReplicationSettings

OPEN = gauge(
    "kafka_server_socket_server_metrics_connection_count",
    "Connections that are open on a listener.",
    "listener",
)
RATE = gauge(
    "penstock_replication_throttle_bytes_per_second",
    "What a throttle lets this broker send as a leader or fetch as a follower; absent without one.",
    "role",
)


def connection_metrics(servers: Iterable[Server]) -> Source:
    servers = tuple(servers)

    def samples() -> Steps:
        for server in servers:
            open_by = Counter(server.connections.values())
            for listener in server.listeners:
                yield OPEN.sample(open_by[listener], listener)

    return Source((OPEN,), samples)


def throttle_metrics(settings: Callable[[], ReplicationSettings]) -> Source:
    def samples() -> Steps:
        now = settings()
        rates = {
            "leader": now.leader_replication_throttled_rate,
            "follower": now.follower_replication_throttled_rate,
        }
        for role, rate in rates.items():
            if rate is not None:
                yield RATE.sample(rate, role)

    return Source((RATE,), samples)

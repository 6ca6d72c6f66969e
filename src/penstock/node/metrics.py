"""The metrics of a node: which sources it has, by its roles, and the endpoint that tells them.

Loaded by a node whose settings say where (`penstock.metrics.address`); others do without it, and
without the library that it needs.
"""

from collections.abc import Iterable
from importlib.metadata import version

from penstock.broker.controller.local_controller import LocalController
from penstock.broker.coordinators.group_log import Rebalances
from penstock.broker.metrics.causes import election_metrics, rebalance_metrics
from penstock.broker.metrics.changes import MetadataChanges
from penstock.broker.metrics.clients import client_metrics
from penstock.broker.metrics.cluster import active_metrics, cluster_metrics
from penstock.broker.metrics.compaction import compaction_metrics
from penstock.broker.metrics.connections import connection_metrics, throttle_metrics
from penstock.broker.metrics.endpoint import MetricsEndpoint
from penstock.broker.metrics.groups import group_metrics
from penstock.broker.metrics.logs import directory_metrics, log_metrics
from penstock.broker.metrics.node import LoopLag, broker_state_metrics, info_metrics, time_metrics
from penstock.broker.metrics.quorum import quorum_metrics
from penstock.broker.metrics.replicas import replica_metrics
from penstock.broker.metrics.requests import request_metrics
from penstock.broker.metrics.scrape import Scrape
from penstock.broker.metrics.topics import topic_metrics
from penstock.broker.metrics.tracing import tracing_metrics
from penstock.broker.metrics.transactions import transaction_metrics
from penstock.broker.network.server import Server
from penstock.broker.partitions.log_directories import LogDirectories
from penstock.broker.request.request_stats import RequestStats
from penstock.metadata.image.image import Delta, Image
from penstock.node.broker_parts import BrokerParts
from penstock.node.config import NodeConfig
from penstock.node.metric_sources import certificate_source
from penstock.tracing.span import SpanBuffer
from penstock.world.ports import Address, Listener, World
from penstock.world.tasks import TaskGroup


class NodeMetrics:
    """`open` once the replica of the metadata is, `note` each change of the metadata."""

    def __init__(
        self,
        *,
        world: World,
        config: NodeConfig,
        cluster_id: str,
        listener: Listener,
        group: TaskGroup,
        directories: LogDirectories,
        local: LocalController,
        broker: BrokerParts | None,
        servers: Iterable[Server],
        stats: RequestStats,
        spans: SpanBuffer | None,  # of traces; None: none are exported
    ) -> None:
        cluster = config.cluster
        self._group = group
        self._lag = LoopLag()
        self._changes = MetadataChanges(config.node_id)
        sources = [
            info_metrics(
                node_id=config.node_id,
                cluster_id=cluster_id,
                roles=config.settings.process_roles,
                version=version("penstock"),
            ),
            time_metrics(world.clock),
            active_metrics(local),
            quorum_metrics(local),
            log_metrics(directories),
            directory_metrics(directories, world.disk),
            connection_metrics(tuple(servers)),
            request_metrics(stats),
            self._changes.source,
            self._lag.source,
        ]
        certificates = certificate_source(world, config)
        if certificates is not None:
            sources.append(certificates)
        if spans is not None:
            sources.append(tracing_metrics(spans))
        if cluster.is_controller:
            sources.append(cluster_metrics(local))
            sources.append(election_metrics(local.count_elections()))
        if broker is not None:
            services = broker.services
            rebalances = services.groups.rebalances = Rebalances()
            sources += [
                broker_state_metrics(local, config.node_id),
                topic_metrics(services.partitions.traffic),
                replica_metrics(services.partitions, lambda: services.image),
                compaction_metrics(broker.cleaning),
                group_metrics(services.groups, services.partitions, world.clock),
                rebalance_metrics(rebalances),
                transaction_metrics(services.transactions, world.clock),
                throttle_metrics(lambda: services.settings.replication),
            ]
            assert services.telemetry is not None  # made by the same setting
            sources.append(client_metrics(services.telemetry, world.clock))
        self._endpoint = MetricsEndpoint(listener, group, Scrape(sources, world.clock).page)

    @property
    def address(self) -> Address:
        return self._endpoint.address

    def open(self) -> None:
        self._endpoint.open()
        self._group.start(self._lag.keep(), name="event loop's lag")

    def close(self) -> None:
        self._endpoint.close()

    def note(self, delta: Delta, image: Image) -> None:
        self._changes.note(delta, image)

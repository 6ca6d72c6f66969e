"""What a node consists of: one function that puts the parts together on a World.

    addresses -> directories -> this node's replica of the metadata -> the listener of controllers
    -> registration -> image -> partitions -> the listeners of clients

`build` opens nothing yet; `Node.start` does, in that order. An address that another process has
ends the start before anything is written; clients are refused until everything is open. A node is
a broker, a controller, or both. Start reading at `open_node`.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from penstock.broker.controller.controller_link import ControllerLink
from penstock.broker.controller.local_controller import LocalController
from penstock.broker.controller.quorum_driver import QuorumMember
from penstock.broker.controller.registration import NO_EPOCH
from penstock.broker.network.server import Server, bind_listeners, socket_options
from penstock.broker.partitions.log_directories import LogDirectories
from penstock.broker.request.request_stats import RequestStats
from penstock.log.errors import RecordsLost
from penstock.log.partition_log import PartitionLog
from penstock.metadata.image.image import Delta, Image
from penstock.model.events import NODE_READY, NODE_STOPPED
from penstock.model.identity import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.cluster_node import Role
from penstock.model.settings.listener import ListenAddress
from penstock.model.settings.setting import InvalidSetting
from penstock.model.settings.topic import TopicSettings
from penstock.node.authentications import NodeLogins
from penstock.node.bootstrap import read_bootstrap
from penstock.node.broker_parts import BrokerParts
from penstock.node.config import NodeConfig
from penstock.node.endpoints import controller_endpoint
from penstock.node.identities import identities_of
from penstock.node.lifecycle import Node
from penstock.node.quorum import quorum_place
from penstock.node.security import PLAIN, NodeSecurity
from penstock.node.start_checks import (
    LostMetadata,
    refuse_foreign_directories,
    refuse_logs_beside_nodes,
    refuse_lost_metadata,
    refuse_nested_node,
)
from penstock.world.event_log import tell
from penstock.world.ports import Address, Listener, World
from penstock.world.tasks import TaskGroup

if TYPE_CHECKING:
    from penstock.node.alerts import NodeAlerts
    from penstock.node.connections import Connections
    from penstock.node.metrics import NodeMetrics
    from penstock.node.tracing import NodeTracing

logger = logging.getLogger(__name__)

PROCESS_FILE = "node.pid"


def build(world: World, config: NodeConfig) -> Node:
    return Node(partial(open_node, world, config))


async def open_node(
    world: World,
    config: NodeConfig,
    group: TaskGroup,
    *,
    made: "Callable[[OpenNode], None] | None" = None,
) -> "OpenNode":
    """Opens everything, in order; what was opened is closed again when a later step fails. `made`
    is told of the node before it is open: the simulator looks at it from then on.
    """
    refuse_nested_node(world.disk, config)
    refuse_foreign_directories(world.disk, config)
    refuse_logs_beside_nodes(world.disk, config)
    security = _security(world, config)
    with ExitStack() as opened:
        listeners = await bind_listeners(
            world.network,
            [
                ListenAddress(listener=one.name, host=one.host, port=one.port)
                for one in config.cluster.listeners.values()
            ],
            socket_options(config.settings),
        )
        for listener in listeners.values():
            opened.callback(listener.close)
        metrics_listener = await _metrics_listener(world, config)
        if metrics_listener is not None:
            opened.callback(metrics_listener.close)
        directories = LogDirectories.open(
            disk=world.disk,
            paths=config.log_directories,
            metadata_path=config.metadata_directory,
            producer_expiry_ms=config.settings.producer_id_expiration_ms,
            boot_id=world.boot_id,
        )
        opened.callback(directories.abandon)
        node = OpenNode(world, config, directories, listeners, group, security, metrics_listener)
        opened.pop_all()  # from here on they are the node's
        if made is not None:
            made(node)
        opened.callback(node.abandon)
        await node.open()
        opened.pop_all()
    return node


class OpenNode:
    """The open parts of a node; `Running` to its lifecycle."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        directories: LogDirectories,
        listeners: Mapping[str, Listener],
        group: TaskGroup,
        security: NodeSecurity = PLAIN,
        metrics_listener: Listener | None = None,
    ) -> None:
        self._world = world
        self._config = config
        self._directories = directories
        self._group = group
        cluster = config.cluster
        settings = config.complete_settings
        identities = identities_of(directories, world, config)
        self._cluster_id = identities[0].cluster_id
        [metadata_identity] = [
            identity
            for directory, identity in zip(directories, identities, strict=True)
            if directory.path == directories.metadata.path
        ]
        self._place = quorum_place(
            cluster,
            disk=world.disk,
            metadata_directory=directories.metadata.path,
            directory_id=metadata_identity.directory_id,
            cluster_id=self._cluster_id,
            endpoints=tuple(
                controller_endpoint(
                    one,
                    bound=listeners[one.name].address,
                    host_name=world.network.host_name(),
                )
                for one in cluster.listeners_of(Role.CONTROLLER)
            ),
        )
        first_records = read_bootstrap(world.disk, directories.metadata.path)
        metadata_log = open_metadata_log(directories, settings, self._place.member, world)
        self.local = LocalController(
            log=metadata_log,
            world=world,
            member=self._place.member,
            settings=settings,
            publish=self._publish,
            first_records=first_records,
        )
        logins = NodeLogins(
            settings=settings,
            cluster=cluster,
            world=world,
            group=group,
            image=lambda: self.local.image,
            log=metadata_log,
            first_records=first_records,
            cluster_id=self._cluster_id,
        )
        self._tracing: NodeTracing | None = None
        if cluster.is_broker and settings.penstock_tracing_endpoint is not None:
            self._tracing = self._made_tracing(settings.penstock_tracing_endpoint)
        self._connections: Connections | None = None
        self.controller: ControllerLink = self.local
        if cluster.quorum.listener is not None:
            # A node that is a cluster of its own does not import it, and is up sooner.
            connections = import_module("penstock.node.connections")
            make: type[Connections] = connections.Connections
            self._connections = make(
                world=world,
                config=config,
                place=self._place,
                local=self.local,
                listeners=_of(listeners, config, Role.CONTROLLER),
                group=group,
                security=security,
                logins=logins,
                tracing=None if self._tracing is None else self._tracing.replicas,
            )
            self.controller = self._connections.controller
        self.broker: BrokerParts | None = None
        if cluster.is_broker:
            self.broker = BrokerParts(
                world=world,
                config=config,
                directories=directories,
                identities=identities,
                listeners=_of(listeners, config, Role.BROKER),
                group=group,
                local=self.local,
                controller=self.controller,
                links=None if self._connections is None else self._connections.broker_links,
                replicating=None if self._connections is None else self._connections.replicating,
                place=self._place,
                entrances=security.entrances,
                authentications=logins.by_listener,
                tracing=None if self._tracing is None else self._tracing.requests,
            )
        self._stats = RequestStats()
        if self._tracing is not None:
            self._stats.tracing = self._tracing.requests
        has_alerts = config.settings.alerts.penstock_alerts_enable
        if metrics_listener is not None or has_alerts or self._tracing is not None:
            for server in self._servers:
                server.count_requests(self._stats)
        self._metrics: NodeMetrics | None = None
        if metrics_listener is not None:
            self._metrics = self._made_metrics(metrics_listener)
        self._alerts: NodeAlerts | None = None
        if has_alerts:
            self._alerts = self._made_alerts(security, logins)

    @property
    def metrics_address(self) -> Address | None:
        """Where GET /metrics is answered; None: nowhere."""
        return None if self._metrics is None else self._metrics.address

    @property
    def addresses(self) -> Mapping[str, Address]:
        """Where clients reach this node: as advertised, by listener. A node that is no broker is
        reached by its listeners of controllers.
        """
        if self.broker is None:
            return {
                endpoint.name: Address(host=endpoint.host, port=endpoint.port)
                for endpoint in self._place.member.endpoints
            }
        return {
            endpoint.listener: Address(host=endpoint.host, port=endpoint.port)
            for endpoint in self.broker.services.endpoints
        }

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """Every log that is open, that of the metadata included."""
        return self._directories.logs

    def log_of(self, partition: TopicPartition) -> PartitionLog | None:
        """One of them: far cheaper than to list all."""
        for directory in self._directories:
            if (log := directory.logs.get(partition)) is not None:
                return log
        return None

    def check(self) -> None:
        """The invariants of all that is open; the simulator asks after its steps."""
        if self.broker is not None:
            self.broker.check()
        for log in self.logs.values():
            log.check()

    async def open(self) -> None:
        started_ms = self._world.clock.monotonic_ms()
        if self._place.member.is_alone:  # others could give it the metadata again
            refuse_lost_metadata(self._directories)
        self.local.open()
        peers = None if self._connections is None else self._connections.peers
        self._group.start(self.local.run(peers), name="controller")
        if self._metrics is not None:
            self._metrics.open()
        if self._tracing is not None:
            self._tracing.open()
        if self._connections is not None:
            self._connections.open()
        if self.broker is not None:
            await self.broker.recover()
        self._log_recovery(started_ms)
        if self.broker is not None:
            await self.broker.open()
        if self._alerts is not None:
            self._alerts.open()
        self._write_process_id()
        tell(
            logger,
            NODE_READY,
            node_id=self._config.node_id,
            cluster_id=self._cluster_id,
            listeners=[f"{name}://{address}" for name, address in self.addresses.items()],
        )

    async def drain(self, *, wait_ms: int) -> None:
        if self._alerts is not None:
            self._alerts.close()
        if self.broker is not None:
            await self.broker.leave()
        if self._metrics is not None:
            self._metrics.close()
        if self.broker is not None:
            await self.broker.drain(wait_ms=wait_ms)
        if self._tracing is not None:
            await self._tracing.close()
        await self.local.close()
        if self._connections is not None:
            await self._connections.close()

    def close(self) -> None:
        epoch = NO_EPOCH if self.broker is None else self.broker.registered_epoch
        self._directories.close(broker_epoch=epoch)
        if self._config.process_id is not None:
            self._world.disk.remove(self._process_file)
        self._world.offload.close()
        tell(logger, NODE_STOPPED, node_id=self._config.node_id)

    def hang_up(self) -> None:
        if self._metrics is not None:
            self._metrics.close()
        if self._tracing is not None:
            self._tracing.abandon()
        if self._connections is not None:
            self._connections.hang_up()
        if self.broker is not None:
            self.broker.server.hang_up()

    def abandon(self) -> None:
        self.hang_up()
        self._directories.abandon()
        self._world.offload.close()

    @property
    def _servers(self) -> tuple[Server, ...]:
        of_broker = () if self.broker is None else (self.broker.server,)
        return of_broker if self._connections is None else (*of_broker, self._connections.server)

    @property
    def _process_file(self) -> str:
        return f"{self._directories.metadata.path}/{PROCESS_FILE}"

    def _publish(self, delta: Delta, image: Image) -> None:
        if self.broker is not None:
            self.broker.publish(delta, image)
        if self._metrics is not None:
            self._metrics.note(delta, image)

    def _made_metrics(self, listener: Listener) -> "NodeMetrics":
        """A node that tells none does not import them, and is up sooner."""
        make: type[NodeMetrics] = import_module("penstock.node.metrics").NodeMetrics
        return make(
            world=self._world,
            config=self._config,
            cluster_id=self._cluster_id,
            listener=listener,
            group=self._group,
            directories=self._directories,
            local=self.local,
            broker=self.broker,
            servers=self._servers,
            stats=self._stats,
            spans=None if self._tracing is None else self._tracing.spans,
        )

    def _made_tracing(self, endpoint: str) -> "NodeTracing":
        """A node that exports none does not import it, nor the library that it needs."""
        try:
            make: type[NodeTracing] = import_module("penstock.node.tracing").NodeTracing
        except ModuleNotFoundError as missing:
            raise InvalidSetting(
                name="penstock.tracing.endpoint",
                value=endpoint,
                expected=f"It needs the library {missing.name}: pip install 'penstock[tracing]'",
            ) from missing
        return make(self._config, cluster_id=self._cluster_id)

    def _made_alerts(self, security: NodeSecurity, logins: NodeLogins) -> "NodeAlerts":
        """A node that evaluates none does not import them."""
        make: type[NodeAlerts] = import_module("penstock.node.alerts").NodeAlerts
        return make(
            world=self._world,
            config=self._config,
            group=self._group,
            directories=self._directories,
            local=self.local,
            controller=self.controller,
            broker=self.broker,
            networks=security.networks,
            login=logins.at_brokers,
            stats=self._stats,
        )

    def _log_recovery(self, started_ms: int) -> None:
        reports = [directory.recovery for directory in self._directories]
        logger.info(
            "recovery segments_scanned=%d clean=%s bytes_scanned=%d bytes_cut=%d "
            "indexes_rebuilt=%d partitions=%d took_ms=%d",
            sum(report.segments_scanned for report in reports),
            all(directory.clean for directory in self._directories),
            sum(report.bytes_scanned for report in reports),
            sum(report.bytes_cut for report in reports),
            sum(report.indexes_rebuilt for report in reports),
            len(self._directories.logs),
            self._world.clock.monotonic_ms() - started_ms,
        )
        for reason in (reason for report in reports for reason in report.reasons):
            logger.warning("recovery %s", reason)

    def _write_process_id(self) -> None:
        if self._config.process_id is not None:
            self._world.disk.write_whole(
                self._process_file, f"{self._config.process_id}\n".encode()
            )


def _security(world: World, config: NodeConfig) -> NodeSecurity:
    cluster = config.cluster
    names = (*cluster.listeners, *cluster.listeners_to_others)
    if not any(config.settings.protocol_of(name).has_tls for name in names):
        return PLAIN
    # A node without TLS does not import it, and is up sooner.
    made = import_module("penstock.node.tls").node_tls(world, config)
    assert isinstance(made, NodeSecurity)
    return made


async def _metrics_listener(world: World, config: NodeConfig) -> Listener | None:
    asked = config.settings.penstock_metrics_address
    if asked is None:
        return None
    return await world.network.bind(Address(host=asked.host, port=asked.port))


def _of(listeners: Mapping[str, Listener], config: NodeConfig, role: Role) -> dict[str, Listener]:
    return {one.name: listeners[one.name] for one in config.cluster.listeners_of(role)}


def open_metadata_log(
    directories: LogDirectories, settings: BrokerSettings, member: QuorumMember, world: World
) -> PartitionLog:
    """A voter of several that has lost what it acknowledged may not vote again: what the others
    count on would be gone.
    """
    try:
        return directories.metadata.open_log(
            TopicPartition(METADATA_TOPIC, 0),
            METADATA_TOPIC_ID,
            metadata_log_settings(settings),
            now_ms=world.clock.now_ms(),
            whole=(member.latest_voters or member.voters).includes(member.key)
            and not member.is_alone,
        )
    except RecordsLost as lost:
        raise LostMetadata(
            f"{lost}: this voter has acknowledged what it no longer has. Replace"
            f" {directories.metadata.path} as that of a lost disk (docs/cluster.md)"
        ) from lost


def metadata_log_settings(settings: BrokerSettings) -> TopicSettings:
    return TopicSettings(
        segment_bytes=settings.metadata_log_segment_bytes,
        segment_ms=settings.metadata_log_segment_ms,
    )

"""What a node consists of: one function that puts the parts together on a World.

    directory -> metadata log -> controller -> image -> partitions -> listeners -> registration

`build` opens nothing yet; `Node.start` does, in that order. Start reading at `open_broker`.
"""

import logging
from collections.abc import Mapping
from functools import partial

from penstock.broker.api_table import versions_served
from penstock.broker.housekeeping import Housekeeping
from penstock.broker.joining import join, unfence
from penstock.broker.local_controller import LocalController
from penstock.broker.partitions import Partitions
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.served import SERVED
from penstock.broker.server import Server
from penstock.broker.services import Services
from penstock.log.checkpoint import DirectoryIdentity
from penstock.log.directory import LogDirectory, write_identity
from penstock.log.partition_log import PartitionLog
from penstock.metadata.controller.brokers import RegisterBroker
from penstock.metadata.effective import effective_broker
from penstock.metadata.image.broker import Endpoint
from penstock.metadata.image.image import Delta, Image
from penstock.model.error import PenstockError
from penstock.model.identity import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition, id_text
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.listener import ANY_HOSTS, ListenAddress
from penstock.model.settings.topic import TopicSettings
from penstock.node.config import NodeConfig
from penstock.node.lifecycle import Node
from penstock.replication.fetch_session import FetchSessions
from penstock.world.ports import Address, World
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

PROCESS_FILE = "node.pid"


class ForeignDirectory(PenstockError):
    """A directory that belongs to another node."""


def build(world: World, config: NodeConfig) -> Node:
    return Node(partial(open_broker, world, config))


async def open_broker(world: World, config: NodeConfig, group: TaskGroup) -> "OpenBroker":
    """Opens everything, in order; what was opened is let go of again when a later step fails."""
    directory = LogDirectory.open(
        disk=world.disk,
        path=config.log_directory,
        producer_expiry_ms=config.settings.producer_id_expiration_ms,
    )
    try:
        broker = OpenBroker(world, config, directory, group)
    except BaseException:
        directory.abandon()
        raise
    try:
        await broker.open()
    except BaseException:
        broker.abandon()
        raise
    return broker


class OpenBroker:
    """The open parts of a node; `Running` to its lifecycle."""

    def __init__(
        self, world: World, config: NodeConfig, directory: LogDirectory, group: TaskGroup
    ) -> None:
        self._world = world
        self._config = config
        self._directory = directory
        self._group = group
        settings = config.settings
        self._identity = identity_of(directory, world, config)
        self._partitions = Partitions(
            directory=directory,
            node_id=config.node_id,
            settings=settings,
            disk=world.disk,
            clock=world.clock,
        )
        self._controller = LocalController(
            log=directory.open_log(
                TopicPartition(METADATA_TOPIC, 0),
                METADATA_TOPIC_ID,
                metadata_log_settings(settings),
                now_ms=world.clock.now_ms(),
            ),
            world=world,
            node_id=config.node_id,
            settings=settings,
            publish=self._publish,
        )
        self._services = Services(
            node_id=config.node_id,
            cluster_id=self._identity.cluster_id,
            settings=settings,
            world=world,
            image=Image(),
            endpoints=(),
            controller=self._controller,
            partitions=self._partitions,
            producer_ids=ProducerIds(
                controller=self._controller,
                node_id=config.node_id,
                broker_epoch=self._broker_epoch,
            ),
            fetch_sessions=FetchSessions(
                random_below=world.entropy.random_below,
                sessions_max=settings.max_incremental_fetch_session_cache_slots,
            ),
            served=versions_served(SERVED),
        )
        self._server = Server(self._services, SERVED, group)

    @property
    def addresses(self) -> Mapping[str, Address]:
        """Where clients reach this node: as advertised, by listener."""
        return {
            endpoint.listener: Address(host=endpoint.host, port=endpoint.port)
            for endpoint in self._services.endpoints
        }

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """Every log that is open, that of the metadata included."""
        return self._directory.logs

    def check(self) -> None:
        """The invariants of all that is open; the simulator asks after its steps."""
        self._partitions.check()
        for log in self.logs.values():
            log.check()

    async def open(self) -> None:
        started_ms = self._world.clock.monotonic_ms()
        self._controller.open()
        report = self._directory.recovery
        logger.info(
            "recovery segments_scanned=%d clean=%s bytes_scanned=%d bytes_cut=%d "
            "indexes_rebuilt=%d partitions=%d took_ms=%d",
            report.segments_scanned, self._directory.clean, report.bytes_scanned,
            report.bytes_cut, report.indexes_rebuilt, len(self._directory.logs),
            self._world.clock.monotonic_ms() - started_ms,
        )  # fmt: skip
        for reason in report.reasons:
            logger.warning("recovery %s", reason)
        self._group.start(self._controller.run(), name="controller")
        self._group.start(self._partitions.syncing.run(), name="sync logs")
        Housekeeping(
            directory=self._directory,
            partitions=self._partitions,
            settings=self._config.settings,
            world=self._world,
        ).start(self._group)
        await self._server.open(self._config.settings.client_listeners)
        self._services.endpoints = self._endpoints()
        await self._join_cluster()
        self._write_process_id()
        self._server.serve()
        logger.info(
            "node ready node_id=%d cluster_id=%s listeners=%s",
            self._config.node_id, self._identity.cluster_id,
            ",".join(f"{name}://{address}" for name, address in self.addresses.items()),
        )  # fmt: skip

    async def drain(self, *, wait_ms: int) -> None:
        self._server.take_no_more()
        self._partitions.close()  # long polls have nothing to wait for any more
        await self._server.drain(wait_ms=wait_ms)
        self._controller.close()

    def close(self) -> None:
        self._directory.close(broker_epoch=self._broker_epoch())
        if self._config.process_id is not None:
            self._world.disk.remove(self._process_file)
        self._world.offload.close()
        logger.info("node stopped node_id=%d", self._config.node_id)

    def hang_up(self) -> None:
        self._server.hang_up()

    def abandon(self) -> None:
        self._server.hang_up()
        self._directory.abandon()
        self._world.offload.close()

    @property
    def _process_file(self) -> str:
        return f"{self._config.node_directory}/{PROCESS_FILE}"

    def _broker_epoch(self) -> int:
        return self._services.image.brokers[self._config.node_id].epoch

    def _publish(self, delta: Delta, image: Image) -> None:
        """A metadata change takes effect: in one step, before those who asked for it are told."""
        self._services.image = image
        self._services.settings = effective_broker(
            self._config.settings, image, self._config.node_id
        )
        self._partitions.apply(delta, image)

    def _endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(
            endpoint_of(
                listening,
                self._config.settings,
                bound=self._server.listeners[listening.listener].address,
                host_name=self._world.network.host_name(),
            )
            for listening in self._config.settings.client_listeners
        )

    async def _join_cluster(self) -> None:
        node_id = self._config.node_id
        broker_epoch = await join(
            self._controller,
            RegisterBroker(
                node_id=node_id,
                incarnation=self._world.entropy.random_bytes(16),
                rack=self._config.settings.broker_rack,
                endpoints=self._services.endpoints,
                directories=(self._identity.directory_id,),
            ),
        )
        await unfence(self._controller, node_id=node_id, broker_epoch=broker_epoch)

    def _write_process_id(self) -> None:
        if self._config.process_id is not None:
            self._world.disk.make_directory(self._config.node_directory)
            self._world.disk.write_whole(
                self._process_file, f"{self._config.process_id}\n".encode()
            )


def identity_of(directory: LogDirectory, world: World, config: NodeConfig) -> DirectoryIdentity:
    """Whose the directory is; an empty one becomes ours, with a cluster of its own."""
    identity = directory.identity
    if identity is None:
        identity = DirectoryIdentity(
            cluster_id=id_text(world.entropy.random_bytes(16)),
            node_id=config.node_id,
            directory_id=world.entropy.random_bytes(16),
        )
        write_identity(world.disk, directory.path, identity)
        logger.info("formatted directory=%s cluster_id=%s", directory.path, identity.cluster_id)
    elif identity.node_id != config.node_id:
        raise ForeignDirectory(
            f"{directory.path} belongs to node {identity.node_id}, not to {config.node_id}"
        )
    return identity


def metadata_log_settings(settings: BrokerSettings) -> TopicSettings:
    return TopicSettings(
        segment_bytes=settings.metadata_log_segment_bytes,
        segment_ms=settings.metadata_log_segment_ms,
    )


def endpoint_of(
    listening: ListenAddress, settings: BrokerSettings, *, bound: Address, host_name: str
) -> Endpoint:
    """What clients are told of a listener: as advertised, else where it listens."""
    host, port = listening.host, 0
    for advertised in settings.advertised_listeners or ():
        if advertised.listener == listening.listener:
            host, port = advertised.host, advertised.port
    return Endpoint(
        listener=listening.listener,
        host=host_name if host in ANY_HOSTS else host,
        port=port or bound.port,
        security_protocol=settings.protocol_of(listening.listener),
    )

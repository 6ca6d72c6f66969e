"""What a node consists of: one function that puts the parts together on a World.

    addresses -> directories -> metadata log -> controller -> image -> partitions
    -> listeners -> registration

`build` opens nothing yet; `Node.start` does, in that order. An address that another process has
ends the start before anything is written; connections are refused until everything is open. Start
reading at `open_broker`.
"""

import logging
import os.path
import re
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from penstock.broker.controller.local_controller import LocalController
from penstock.broker.controller.producer_ids import ProducerIds
from penstock.broker.controller.quorum_driver import sole_voter
from penstock.broker.controller.registration import join, unfence
from penstock.broker.coordinators.group_coordinator import GroupCoordinator
from penstock.broker.coordinators.transaction_coordinator import TransactionCoordinator
from penstock.broker.network.api_registry import SERVED
from penstock.broker.network.server import Server, bind_listeners, socket_options
from penstock.broker.partitions.cleaning import Cleaning
from penstock.broker.partitions.housekeeping import Housekeeping
from penstock.broker.partitions.log_directories import LogDirectories, normal
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.request.api_table import versions_served
from penstock.broker.request.services import Services
from penstock.log.checkpoint import DirectoryIdentity
from penstock.log.directory import sign_of_log_directory, write_identity
from penstock.log.partition_log import PartitionLog
from penstock.metadata.controller.brokers import RegisterBroker
from penstock.metadata.effective import effective_broker
from penstock.metadata.image.broker import Endpoint
from penstock.metadata.image.image import Delta, Image
from penstock.model.error import PenstockError
from penstock.model.identity import (
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    TopicPartition,
    id_text,
    random_id,
)
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.listener import ANY_HOSTS, ListenAddress
from penstock.model.settings.topic import TopicSettings
from penstock.node.config import NodeConfig
from penstock.node.directory_owners import cluster_of, owners_of, refuse_unformatted
from penstock.node.formatting import refuse_ignored_voters
from penstock.node.lifecycle import Node
from penstock.replication.fetch_session import FetchSessions
from penstock.world.ports import Address, Disk, Listener, World
from penstock.world.tasks import TaskGroup

logger = logging.getLogger(__name__)

PROCESS_FILE = "node.pid"
NODE_DIRECTORY = re.compile(r"node-(\d+)")


class NestedNode(PenstockError):
    """A data directory that is a log directory itself: nodes have theirs below it."""


class LostMetadata(PenstockError):
    """Data of topics that no metadata tells of."""


def build(world: World, config: NodeConfig) -> Node:
    return Node(partial(open_broker, world, config))


async def open_broker(world: World, config: NodeConfig, group: TaskGroup) -> "OpenBroker":
    """Opens everything, in order; what was opened is closed again when a later step fails."""
    refuse_nested_node(world.disk, config)
    refuse_foreign_directories(world.disk, config)
    refuse_logs_beside_nodes(world.disk, config)
    settings = config.settings
    with ExitStack() as opened:
        listeners = await bind_listeners(
            world.network, settings.client_listeners, socket_options(settings)
        )
        for listener in listeners.values():
            opened.callback(listener.close)
        directories = LogDirectories.open(
            disk=world.disk,
            paths=config.log_directories,
            metadata_path=config.metadata_directory,
            producer_expiry_ms=settings.producer_id_expiration_ms,
        )
        opened.callback(directories.abandon)
        broker = OpenBroker(world, config, directories, listeners, group)
        opened.pop_all()  # from here on they are the broker's
        opened.callback(broker.abandon)
        await broker.open()
        opened.pop_all()
    return broker


class OpenBroker:
    """The open parts of a node; `Running` to its lifecycle."""

    def __init__(
        self,
        world: World,
        config: NodeConfig,
        directories: LogDirectories,
        listeners: Mapping[str, Listener],
        group: TaskGroup,
    ) -> None:
        self._world = world
        self._config = config
        self._directories = directories
        self._group = group
        settings = self._settings = config.complete_settings
        self._identities = identities_of(directories, world, config)
        self._cluster_id = self._identities[0].cluster_id
        [self._metadata_identity] = [
            identity
            for directory, identity in zip(directories, self._identities, strict=True)
            if directory.path == directories.metadata.path
        ]
        self._partitions = Partitions(
            directories=directories,
            node_id=config.node_id,
            settings=settings,
            disk=world.disk,
            clock=world.clock,
        )
        self._controller = LocalController(
            log=directories.metadata.open_log(
                TopicPartition(METADATA_TOPIC, 0),
                METADATA_TOPIC_ID,
                metadata_log_settings(settings),
                now_ms=world.clock.now_ms(),
            ),
            world=world,
            member=sole_voter(
                config.node_id,
                directory_id=self._metadata_identity.directory_id,
                cluster_id=self._cluster_id,
            ),
            settings=settings,
            publish=self._publish,
        )
        self._groups = GroupCoordinator(
            node_id=config.node_id,
            world=world,
            partitions=self._partitions,
            controller=self._controller,
            settings=settings.groups,
        )
        producer_ids = ProducerIds(
            controller=self._controller,
            node_id=config.node_id,
            broker_epoch=self._broker_epoch,
        )
        self._transactions = TransactionCoordinator(
            world=world,
            partitions=self._partitions,
            controller=self._controller,
            producer_ids=producer_ids,
            write_to_offsets=self._groups.write_marker,
            settings=settings.transactions,
        )
        self._services = Services(
            node_id=config.node_id,
            cluster_id=self._cluster_id,
            settings=settings,
            world=world,
            image=Image(),
            endpoints=(),
            controller=self._controller,
            partitions=self._partitions,
            groups=self._groups,
            transactions=self._transactions,
            producer_ids=producer_ids,
            fetch_sessions=FetchSessions(
                random_below=world.entropy.random_below,
                sessions_max=settings.max_incremental_fetch_session_cache_slots,
            ),
            served=versions_served(SERVED),
        )
        self._server = Server(self._services, SERVED, group, listeners)

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
        return self._directories.logs

    def check(self) -> None:
        """The invariants of all that is open; the simulator asks after its steps."""
        self._partitions.check()
        self._groups.check()
        self._transactions.check()
        for log in self.logs.values():
            log.check()

    async def open(self) -> None:
        started_ms = self._world.clock.monotonic_ms()
        refuse_lost_metadata(self._directories)
        self._controller.open()
        self._services.quorum = self._controller.quorum
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
        self._group.start(self._controller.run(), name="controller")
        # What was acked must be seen at once again: readers see no further than what is synced.
        await self._partitions.sync_wanted()
        self._group.start(self._partitions.keep_syncing(), name="sync logs")
        self._group.start(self._groups.run(), name="group coordinator")
        self._group.start(self._transactions.run(), name="transaction coordinator")
        Housekeeping(
            partitions=self._partitions,
            settings=self._config.settings,
            world=self._world,
        ).start(self._group)
        Cleaning(
            partitions=self._partitions,
            settings=lambda: self._services.settings,
            world=self._world,
        ).start(self._group)
        self._server.open()
        self._services.endpoints = self._endpoints()
        await self._join_cluster()
        self._write_process_id()
        self._server.serve()
        logger.info(
            "node ready node_id=%d cluster_id=%s listeners=%s",
            self._config.node_id, self._cluster_id,
            ",".join(f"{name}://{address}" for name, address in self.addresses.items()),
        )  # fmt: skip

    async def drain(self, *, wait_ms: int) -> None:
        self._server.take_no_more()
        self._groups.close()
        self._transactions.close()
        self._partitions.close()  # long polls have nothing to wait for any more
        await self._server.drain(wait_ms=wait_ms)
        self._controller.close()

    def close(self) -> None:
        self._directories.close(broker_epoch=self._broker_epoch())
        if self._config.process_id is not None:
            self._world.disk.remove(self._process_file)
        self._world.offload.close()
        logger.info("node stopped node_id=%d", self._config.node_id)

    def hang_up(self) -> None:
        self._server.hang_up()

    def abandon(self) -> None:
        self._server.hang_up()
        self._directories.abandon()
        self._world.offload.close()

    @property
    def _process_file(self) -> str:
        return f"{self._directories.metadata.path}/{PROCESS_FILE}"

    def _broker_epoch(self) -> int:
        return self._services.image.brokers[self._config.node_id].epoch

    def _publish(self, delta: Delta, image: Image) -> None:
        """A metadata change takes effect: in one step, before those who asked for it are told."""
        self._services.image = image
        self._services.settings = effective_broker(self._settings, image, self._config.node_id)
        self._partitions.apply(delta, image)
        self._groups.apply(delta, image, self._services.settings.groups)
        self._transactions.apply(delta, image, self._services.settings.transactions)

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
                directories=tuple(sorted(one.directory_id for one in self._identities)),
                previous_broker_epoch=self._directories.stopped_epoch,
            ),
        )
        await unfence(self._controller, node_id=node_id, broker_epoch=broker_epoch)

    def _write_process_id(self) -> None:
        if self._config.process_id is not None:
            self._world.disk.write_whole(
                self._process_file, f"{self._config.process_id}\n".encode()
            )


def refuse_nested_node(disk: Disk, config: NodeConfig) -> None:
    """A node in a directory inside of another node's would be empty, and surprise everyone."""
    path = config.data_directory
    if config.node_directory not in config.log_directories:
        return
    sign = sign_of_log_directory(disk, path)
    if sign is None:
        return
    instead = f"set log.dirs={path}"
    owner = NODE_DIRECTORY.fullmatch(os.path.basename(os.path.abspath(path)))
    if owner is not None:
        number = int(owner[1])
        with_id = "" if number == config.node_id else f" with node.id={number}"
        instead = f"pass {os.path.normpath(os.path.join(path, os.pardir))} instead{with_id}"
    raise NestedNode(
        f"{path} is a log directory itself (it has {sign}), and no node is started inside it: "
        f"{instead}"
    )


def refuse_foreign_directories(disk: Disk, config: NodeConfig) -> None:
    """Before anything in them is touched, be it only the mark of a clean stop."""
    metadata_directory = normal(config.metadata_directory)
    owners = owners_of(disk, (metadata_directory, *map(normal, config.log_directories)))
    cluster_of(owners, node_id=config.node_id)
    refuse_unformatted(
        owners,
        node=config.cluster,
        metadata_directory=metadata_directory,
        config_file=config.config_file,
    )
    refuse_ignored_voters(disk, config.cluster, metadata_directory)


def refuse_logs_beside_nodes(disk: Disk, config: NodeConfig) -> None:
    """A directory with those of nodes in it, as that of `serve --data`, would become one more of
    them, and what they hold would be missing.
    """
    for path in config.log_directories:
        if not disk.is_directory(path) or sign_of_log_directory(disk, path) is not None:
            continue
        for name in sorted(disk.names(path)):
            inside = os.path.join(path, name)
            if NODE_DIRECTORY.fullmatch(name) and sign_of_log_directory(disk, inside) is not None:
                raise NestedNode(
                    f"{path} holds log directories of nodes, and becomes none itself: "
                    f"set log.dirs={inside}, or start with --data {path} and without log.dirs"
                )


def identities_of(
    directories: LogDirectories, world: World, config: NodeConfig
) -> list[DirectoryIdentity]:
    """Whose the directories are; empty ones become ours, in a cluster of our own if all are."""
    found = {directory.path: directory.identity for directory in directories}
    cluster_id = cluster_of(found, node_id=config.node_id)
    if cluster_id is None:
        cluster_id = id_text(random_id(world.entropy.random_bytes))
    return [
        identity or _format(path, world, config, cluster_id) for path, identity in found.items()
    ]


def _format(path: str, world: World, config: NodeConfig, cluster_id: str) -> DirectoryIdentity:
    identity = DirectoryIdentity(
        cluster_id=cluster_id,
        node_id=config.node_id,
        directory_id=random_id(world.entropy.random_bytes),
    )
    write_identity(world.disk, path, identity)
    logger.info("formatted directory=%s cluster_id=%s", path, cluster_id)
    return identity


def refuse_lost_metadata(directories: LogDirectories) -> None:
    """Partitions without metadata: going on would forget every topic and put its data away."""
    if directories.logs[TopicPartition(METADATA_TOPIC, 0)].end_offset > 0:
        return
    orphans = directories.partitions_claimed()
    if orphans:
        raise LostMetadata(
            f"{directories.metadata.path} holds no metadata, but there are {len(orphans)} "
            f"partitions such as {orphans[0]}: restore its {METADATA_TOPIC}-0 from a copy, "
            f"or move the partitions away to begin anew"
        )


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

"""The broker of a node: partitions, coordinators, and the listeners of its clients."""

import logging
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from penstock.broker.controller.broker_lease import BrokerLease
from penstock.broker.controller.controller_link import ControllerLink
from penstock.broker.controller.links import Links
from penstock.broker.controller.local_controller import LocalController
from penstock.broker.controller.membership import Membership
from penstock.broker.controller.producer_ids import ProducerIds
from penstock.broker.controller.registration import NO_EPOCH, registration_of
from penstock.broker.coordinators.group_coordinator import GroupCoordinator
from penstock.broker.coordinators.transaction_coordinator import TransactionCoordinator
from penstock.broker.network.api_registry import SERVED, SERVED_WITHOUT_TELEMETRY
from penstock.broker.network.entrance import Entrance
from penstock.broker.network.server import Server
from penstock.broker.partitions.cleaning import Cleaning
from penstock.broker.partitions.directory_assignments import DirectoryAssignments
from penstock.broker.partitions.directory_moves import DirectoryMoves
from penstock.broker.partitions.housekeeping import Housekeeping
from penstock.broker.partitions.log_directories import LogDirectories
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.partitions.reopening import Reopening
from penstock.broker.request.api_table import versions_served
from penstock.broker.request.listed_brokers import ListedBrokers
from penstock.broker.request.services import Services
from penstock.log.checkpoint import DirectoryIdentity
from penstock.metadata.effective import CLUSTER_DEFAULT, BrokerSettingsInEffect
from penstock.metadata.image.broker import Endpoint
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.topic_rules import MIN_IN_SYNC
from penstock.model.configs import ResourceKind
from penstock.model.limit import TELEMETRY_SUBSCRIPTIONS_MAX as SUBSCRIPTIONS_MAX
from penstock.model.settings.client_metrics import Subscription, parse_subscription
from penstock.model.settings.setting import InvalidSetting
from penstock.node.authorization import authorizer_of
from penstock.node.config import NodeConfig
from penstock.node.endpoints import endpoint_of
from penstock.node.quorum import QuorumPlace
from penstock.replication.fetch_session import FetchSessions
from penstock.world.ports import Address, Listener, World
from penstock.world.tasks import TaskGroup

if TYPE_CHECKING:
    from penstock.broker.network.authentication import Authentication
    from penstock.broker.replication.replicating import Replicating
    from penstock.broker.request.request_tracing import RequestTracing
    from penstock.metrics.telemetry.client_telemetry import ClientTelemetry

logger = logging.getLogger(__name__)

CLIENT_METRICS = ResourceKind.CLIENT_METRICS
TELEMETRY = "penstock.metrics.telemetry.client_telemetry"


class BrokerParts:
    """`open` returns when clients are served."""

    def __init__(
        self,
        *,
        world: World,
        config: NodeConfig,
        directories: LogDirectories,
        identities: Sequence[DirectoryIdentity],
        listeners: Mapping[str, Listener],
        group: TaskGroup,
        local: LocalController,
        controller: ControllerLink,
        links: Links | None,  # to other brokers; None: there are none
        replicating: "Callable[..., Replicating] | None",  # the same
        place: QuorumPlace,
        entrances: Mapping[str, Entrance],  # of the listeners with TLS
        authentications: "Mapping[str, Authentication]",  # of those with SASL
        tracing: "RequestTracing | None" = None,
    ) -> None:
        self._world = world
        self._config = config
        self._directories = directories
        self._identities = identities
        self._group = group
        self._local = local
        # The only voter, at the start; others may be added, and there may be other brokers.
        self._starts_alone = place.member.is_alone
        self._has_session = links is not None  # a cluster of its own has nobody who could take over
        node_id = config.node_id
        settings = self._settings = config.complete_settings
        self._in_effect = BrokerSettingsInEffect(settings, node_id)
        directory_ids = {
            directory.path: identity.directory_id
            for directory, identity in zip(directories, identities, strict=True)
        }
        lease = BrokerLease(
            timeout_ms=settings.broker_session_timeout_ms if self._has_session else None,
            metadata_offset=lambda: local.image.offset,
            is_own_controller=lambda: local.decides_alone,
        )
        self._membership = Membership(
            controller=controller,
            local=local,
            node_id=node_id,
            heartbeat_interval_ms=config.cluster.heartbeat_interval_ms,
            registration_timeout_ms=config.cluster.registration_timeout_ms,
            session_timeout_ms=settings.broker_session_timeout_ms,
            clock=world.clock,
            lease=lease,
            failed_directories=lambda: [
                directory_ids[path] for path in directories.failed if path in directory_ids
            ],
            registered=self._registered,
        )
        self.partitions = Partitions(
            directories=directories,
            node_id=node_id,
            settings=settings,
            disk=world.disk,
            clock=world.clock,
        )
        self._replicating = None
        if replicating is not None:
            self._replicating = replicating(
                self.partitions, broker_epoch=lambda: self.registered_epoch
            )
        self.offsets_may_be_alone = self._may_be_alone("offsets.topic.replication.factor", links)
        self._groups = GroupCoordinator(
            node_id=node_id,
            world=world,
            partitions=self.partitions,
            controller=controller,
            settings=settings.groups,
            may_be_alone=self.offsets_may_be_alone,
            lease=lease,
        )
        producer_ids = ProducerIds(
            controller=controller, node_id=node_id, broker_epoch=self.broker_epoch
        )
        self._transactions = TransactionCoordinator(
            world=world,
            partitions=self.partitions,
            controller=controller,
            producer_ids=producer_ids,
            write_to_offsets=self._groups.write_marker,
            settings=settings.transactions,
            node_id=node_id,
            links=links,
            may_be_alone=self._may_be_alone("transaction.state.log.replication.factor", links),
            lease=lease,
        )
        self._directory_assignments = DirectoryAssignments(
            node_id=node_id,
            directories=directories,
            ids=directory_ids,
            is_damaged=self.partitions.is_damaged,
            controller=controller,
            broker_epoch=self.broker_epoch,
        )
        self._directory_moves = DirectoryMoves(
            node_id=node_id,
            partitions=self.partitions,
            ids=directory_ids,
            assignments=self._directory_assignments,
            disk=world.disk,
            clock=world.clock,
        )
        self._telemetry = None
        self._subscriptions: frozenset[str] = frozenset()  # to metrics of clients, as used
        if settings.penstock_metrics_address is not None:
            self._telemetry = self._made_telemetry()
        apis = SERVED_WITHOUT_TELEMETRY if self._telemetry is None else SERVED
        self.services = Services(
            node_id=node_id,
            cluster_id=place.member.cluster_id,
            settings=settings,
            world=world,
            image=Image(),
            endpoints=(),
            controller=controller,
            partitions=self.partitions,
            groups=self._groups,
            transactions=self._transactions,
            producer_ids=producer_ids,
            fetch_sessions=FetchSessions(
                random_below=world.entropy.random_below,
                sessions_max=settings.max_incremental_fetch_session_cache_slots,
            ),
            listed_brokers=ListedBrokers(session_ms=settings.broker_session_timeout_ms),
            served=versions_served(apis),
            local=local,
            authorizer=authorizer_of(settings),
            directory_moves=self._directory_moves,
            telemetry=self._telemetry,
            tracing=tracing,
        )
        if self._replicating is not None:
            self.services.in_sync_changes = self._replicating.in_sync_changes
            self.services.lost_nodes = self._replicating
            self.services.leader_throttle = self._replicating.leader_throttle
        self.cleaning = Cleaning(
            partitions=self.partitions,
            settings=lambda: self.services.settings,
            world=world,
            is_moving=self._directory_moves.is_moving,
        )
        self.server = Server(
            self.services,
            apis,
            group,
            listeners,
            closed=self._note_closed if self._telemetry is not None else None,
            entrances=entrances,
            authentications=authentications,
            brokers=config.cluster.inter_broker_listener,
        )

    def publish(self, delta: Delta, image: Image) -> None:
        """A metadata change takes effect: in one step, before those who asked for it are told."""
        now_ms = self._world.clock.monotonic_ms()
        self.services.listed_brokers.note(delta, self.services.image, image, now_ms=now_ms)
        self.services.image = image
        self.services.settings = self._in_effect.in_metadata(image)
        applied = self.partitions.apply(delta, image)
        if self._replicating is not None:
            self._replicating.applied(delta, image, applied)
            self._replicating.limit(self.services.settings.replication)
        self._directory_assignments.note(delta, image)
        self._directory_moves.note(image)
        self._directory_moves.limit(
            self.services.settings.replication.replica_alter_log_dirs_io_max_bytes_per_second
        )
        if self._telemetry is not None:
            self._subscribe(delta, image)
        self._groups.apply(delta, image, self.services.settings.groups)
        self._transactions.apply(delta, image, self.services.settings.transactions)

    def _made_telemetry(self) -> "ClientTelemetry":
        """A node that shows no metrics does not import it."""
        make: type[ClientTelemetry] = import_module(TELEMETRY).ClientTelemetry
        return make(
            push_bytes_max=self._settings.telemetry_max_bytes,
            random_bytes=self._world.entropy.random_bytes,
            note_costly=_warn_of_costly,
        )

    def _subscribe(self, delta: Delta, image: Image) -> None:
        """Subscriptions to the metrics of clients, as they are now. If there are too many, all
        brokers use the same ones: the first by name.
        """
        assert self._telemetry is not None
        changed = {name for kind, name in delta.configs_changed if kind == CLIENT_METRICS}
        if not changed:
            return
        names = sorted(name for kind, name in image.configs if kind == CLIENT_METRICS)
        used, left_out = names[:SUBSCRIPTIONS_MAX], names[SUBSCRIPTIONS_MAX:]
        used_before, self._subscriptions = self._subscriptions, frozenset(used)
        for name in used_before.difference(used):
            self._telemetry.subscribe(name, None)
        for name in used:
            if name in changed or name not in used_before:
                self._telemetry.subscribe(name, _subscription(name, image))
        for name in left_out:
            if name in changed:
                logger.warning(
                    "client metrics subscription=%r used=false reason=there are %d before it",
                    name, SUBSCRIPTIONS_MAX,
                )  # fmt: skip

    def _note_closed(self, peer: Address) -> None:
        assert self._telemetry is not None
        self._telemetry.note_closed((peer.host, peer.port))

    @property
    def registered_epoch(self) -> int:
        """The broker epoch that this process was given; NO_EPOCH until then."""
        return self._membership.broker_epoch

    def broker_epoch(self) -> int:
        broker = self.services.image.brokers.get(self._config.node_id)
        return NO_EPOCH if broker is None else broker.epoch

    def check(self) -> None:
        self.partitions.check()
        self._directory_moves.check()
        if self._replicating is not None:
            self._replicating.check()
        self._groups.check()
        self._transactions.check()

    async def recover(self) -> None:
        """Opens all logs, and finds out whether anything is lost: the registration tells it. A
        broker alone opens them when it knows their topics, and registers afterwards.
        """
        if not self._starts_alone:
            await self._directories.recover(now_ms=self._world.clock.now_ms())

    async def open(self) -> None:
        self.services.endpoints = self._endpoints()
        if not self._starts_alone:
            # Partitions are led when all is known that was decided before this broker came.
            await self._register()
        # What was acked must be seen at once again: readers see no further than what is synced.
        await self.partitions.sync_wanted()
        self._group.start(self.partitions.keep_syncing(), name="sync logs")
        self._group.start(self.partitions.ack_deadlines.keep(), name="late acks")
        if self._replicating is not None:
            self._replicating.start()
        self._group.start(self._groups.run(), name="group coordinator")
        self._group.start(self._transactions.run(), name="transaction coordinator")
        Housekeeping(
            partitions=self.partitions, settings=self._config.settings, world=self._world
        ).start(self._group)
        self.cleaning.start(self._group)
        self._directory_moves.is_compacting = self.cleaning.is_compacting
        reopening = Reopening(
            partitions=self.partitions,
            publish=lambda delta: self.publish(delta, self.services.image),
        )
        self._group.start(reopening.keep(), name="open logs again")
        self.server.open()
        if self._starts_alone:
            await self._register()
        await self._directory_assignments.tell_damaged()
        await self._membership.unfence()
        self._compare_in_sync_min()
        self._group.start(self._directory_assignments.run(), name="directories of replicas")
        self._group.start(self._directory_moves.run(), name="moves between directories")
        if self._has_session:
            # From the start, also where this node is the only voter: heartbeats name the log
            # directories that have failed, and the next controller may be another node.
            self._group.start(self._membership.run(), name="heartbeats")
        self.server.serve()

    def _may_be_alone(self, factor: str, links: Links | None) -> bool:
        """Whether this broker is a cluster of its own, unless its settings speak of more brokers
        that are to come.
        """
        return links is None or (self._starts_alone and factor not in self._settings.given)

    def _compare_in_sync_min(self) -> None:
        """The cluster's default counts, whatever this node's file says."""
        given = self._settings.given.get(MIN_IN_SYNC)
        config = self.services.image.config(ResourceKind.BROKER, CLUSTER_DEFAULT)
        default = config.get(MIN_IN_SYNC)
        if given is not None and default is not None and int(given) != int(default):
            logger.warning(
                "%s=%s used=false the cluster's default is %s; to change it: kafka-configs --alter"
                " --entity-type brokers --entity-default --add-config %s=%s",
                MIN_IN_SYNC, given, default, MIN_IN_SYNC, given,
            )  # fmt: skip

    async def leave(self) -> None:
        """What it leads is given up, so that the cluster knows it before this broker is gone. The
        only broker of a cluster has nobody who could take over; without controlled.shutdown.enable
        the others find out as after a kill. The only voter decides it itself: when it is gone,
        nobody can decide anything until it is back.
        """
        others = len(self._local.image.brokers) > 1
        if self._settings.replication.controlled_shutdown_enable and (
            others or not self._starts_alone
        ):
            await self._membership.leave()

    async def drain(self, *, wait_ms: int) -> None:
        self.server.take_no_more()
        if self._replicating is not None:
            self._replicating.close()
        self._groups.close()
        self._transactions.close()
        self.partitions.close()  # long polls have nothing to wait for any more
        await self.server.drain(wait_ms=wait_ms)

    async def _register(self) -> None:
        directories = self._directories
        # Alone, only a clean stop counts: it keeps the leader epochs (ADR 34).
        previous = directories.stopped_epoch if self._starts_alone else directories.clean_epoch
        registration = registration_of(
            node_id=self._config.node_id,
            cluster_id=self.services.cluster_id,
            incarnation=self._world.entropy.random_bytes(16),
            rack=self._config.settings.broker_rack,
            endpoints=self.services.endpoints,
            directories=sorted(one.directory_id for one in self._identities),
            previous_broker_epoch=previous,
        )
        epoch = await self._membership.register(registration)
        if not self._starts_alone:
            logger.info(
                "registered broker=%d epoch=%d previous_epoch=%s",
                self._config.node_id, epoch, "unknown" if previous is None else previous,
            )  # fmt: skip
        await self._membership.catch_up()
        lacking = self.partitions.lacking
        if previous is not None and lacking and not self._starts_alone:
            # Removed, or logs of other topics stand in their places. Not led either: a broker is
            # fenced until it has come further than this.
            logger.error(
                "broker=%d clean=false reason=no log directory has partition %s (%d in all), which"
                " this broker is to have: it counts as one that has lost records",
                self._config.node_id, lacking[0], len(lacking),
            )  # fmt: skip
            registration.previous_broker_epoch = NO_EPOCH
            await self._membership.register(registration)

    def _registered(self, epoch: int) -> None:
        """At the start, and again when the broker was unregistered or another controller did not
        know of it. After a kill the controller compares this epoch with the last one it gave.
        """
        if not self._local.quorum.is_alone:
            self._directories.note_start(epoch)

    def _endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(
            endpoint_of(
                listening,
                self._config.settings,
                bound=self.server.listeners[listening.listener].address,
                host_name=self._world.network.host_name(),
            )
            for listening in self._config.settings.client_listeners
        )


def _subscription(name: str, image: Image) -> Subscription | None:
    try:
        return parse_subscription(image.config(CLIENT_METRICS, name))
    except InvalidSetting as error:
        # Apache Kafka wrote it: patterns of Java can do more than ours.
        logger.warning("client metrics subscription=%r used=false reason=%s", name, error)
        return None


def _warn_of_costly(name: str) -> None:
    logger.warning(
        "client metrics subscription=%r matched=false reason=its patterns take too many steps", name
    )

"""How a node of a cluster is connected: its links to the others, and its listener for controllers.

    broker_links       to other brokers, by their inter-broker listener, as the metadata names it
    controller_links   to the voters, by their listener of controllers
    server             of this node's own listener of controllers, if it is one
    replicating        of a broker: what it fetches from others, and reports of its own followers

A node that is a cluster of its own has none of this, and does not import it: that is why its parts
stand in a module of their own.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.controller.active_controller import ActiveController
from penstock.broker.controller.links import Links
from penstock.broker.controller.local_controller import LocalController
from penstock.broker.controller.quorum_peers import QuorumPeers
from penstock.broker.controller.registration import register_controller, supported_features
from penstock.broker.controller.voter_updates import VoterUpdates
from penstock.broker.network.controller_apis import SERVED_BY_CONTROLLERS
from penstock.broker.network.server import Server
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.replication.replicating import Replicating
from penstock.broker.request.api_table import versions_served
from penstock.broker.request.services import ControllerServices
from penstock.client.network.channel import open_channel
from penstock.client.network.view_channel import open_view_channel
from penstock.model.identity import NodeId
from penstock.node.authentications import NodeLogins
from penstock.node.authorization import authorizer_of
from penstock.node.config import NodeConfig
from penstock.node.quorum import QuorumPlace
from penstock.node.security import NodeSecurity
from penstock.wire.messages.controller_registration import ControllerRegistrationRequest
from penstock.wire.messages.registration_parts import RegisteredListener
from penstock.world.ports import Address, Listener, Network, World
from penstock.world.tasks import TaskGroup

if TYPE_CHECKING:  # not loaded by a node that exports no traces
    from penstock.broker.replication.replica_tracing import ReplicaTracing


class Connections:
    """`open` as soon as the replica of the metadata is: the others may wait for its vote."""

    def __init__(
        self,
        *,
        world: World,
        config: NodeConfig,
        place: QuorumPlace,
        local: LocalController,
        listeners: Mapping[str, Listener],
        group: TaskGroup,
        security: NodeSecurity,
        logins: NodeLogins,
        tracing: "ReplicaTracing | None" = None,
    ) -> None:
        self._world = world
        self._config = config
        self._local = local
        self._group = group
        self._endpoints = place.member.endpoints
        self._tracing = tracing
        node_id = config.node_id
        self._controller_links = Links(
            network=_network(world, security, config.cluster.quorum.listener),
            client_id=f"node-{node_id}",
            address_of=lambda node_id: local.quorum.address_of(node_id),
            tasks=group,
            open_channel=partial(open_channel, login=logins.at_controllers),
        )
        self.broker_links = Links(
            network=_network(world, security, config.cluster.inter_broker_listener),
            client_id=f"broker-{node_id}",
            address_of=self._address_of,
            tasks=group,
            open_channel=partial(open_channel, login=logins.at_brokers),
            open_view_channel=partial(open_view_channel, login=logins.at_brokers),
        )
        self.controller = ActiveController(local=local, links=self._controller_links, world=world)
        self.peers = QuorumPeers(
            links=self._controller_links, member=place.member, driver=lambda: local.quorum
        )
        self.server = Server(
            ControllerServices(
                node_id=node_id,
                cluster_id=place.member.cluster_id,
                settings=config.complete_settings,
                world=world,
                local=local,
                served=versions_served(SERVED_BY_CONTROLLERS),
                authorizer=authorizer_of(config.complete_settings),
            ),
            SERVED_BY_CONTROLLERS,
            group,
            listeners,
            closed=local.watch.connection_lost,
            entrances=security.entrances,
            authentications=logins.by_listener,
        )

    def replicating(
        self, partitions: Partitions, *, broker_epoch: Callable[[], int]
    ) -> Replicating:
        """What a broker does for the replicas of other brokers."""
        return Replicating(
            links=self.broker_links,
            controller=self.controller,
            node_id=self._config.node_id,
            broker_epoch=broker_epoch,
            image=lambda: self._local.image,
            partitions=partitions,
            settings=self._config.settings.replication,
            clock=self._world.clock,
            tasks=self._group,
            tracing=self._tracing,
        )

    def open(self) -> None:
        self.server.open()
        self.server.serve()
        if self._config.cluster.is_controller:
            registering = register_controller(
                self.controller,
                self._local,
                self._registration(),
                names_voters=not self._config.cluster.is_broker,
                clock=self._world.clock,
            )
            self._group.start(registering, name="register controller")
            updates = VoterUpdates(
                local=self._local,
                links=self._controller_links,
                member=self._local.quorum.member,
                joins=self._config.settings.controller_quorum_auto_join_enable,
            )
            self._group.start(updates.run(), name="voter updates")

    async def close(self) -> None:
        self.server.take_no_more()
        await self.server.drain(wait_ms=0)
        self._close_links()

    def hang_up(self) -> None:
        self.server.hang_up()
        self._close_links()

    def _registration(self) -> ControllerRegistrationRequest:
        settings = self._config.settings
        return ControllerRegistrationRequest(
            controller_id=self._config.node_id,
            incarnation_id=self._world.entropy.random_bytes(16),
            listeners=[
                RegisteredListener(
                    name=endpoint.name,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=settings.protocol_of(endpoint.name),
                )
                for endpoint in self._endpoints
            ],
            features=supported_features(),
        )

    def _close_links(self) -> None:
        self._controller_links.close()
        self.broker_links.close()

    def _address_of(self, node_id: NodeId) -> Address | None:
        broker = self._local.image.brokers.get(node_id)
        listener = self._config.cluster.inter_broker_listener
        endpoint = None if broker is None or listener is None else broker.endpoint(listener)
        return None if endpoint is None else Address(host=endpoint.host, port=endpoint.port)


def _network(world: World, security: NodeSecurity, listener: str | None) -> Network:
    """The one by which nodes are reached that listen under this name."""
    return world.network if listener is None else security.networks.get(listener, world.network)

"""Three controllers on real connections: one is active, and what it was asked for survives it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.api import describe_controllers
from penstock.broker.controller.links import Links
from penstock.broker.controller.local_controller import LocalController
from penstock.broker.controller.quorum_driver import QuorumMember
from penstock.broker.controller.quorum_peers import QuorumPeers
from penstock.broker.controller.registration import registration_of
from penstock.broker.network.controller_apis import SERVED_BY_CONTROLLERS
from penstock.broker.network.server import Server, bind_listeners, socket_options
from penstock.broker.request.api_table import versions_served
from penstock.broker.request.services import ControllerServices
from penstock.client.network.channel import Channel, open_channel
from penstock.log.opening import open_log
from penstock.metadata.image.broker import Endpoint
from penstock.metadata.image.image import Delta, Image
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import METADATA_TOPIC, METADATA_TOPIC_ID, NodeId, TopicPartition
from penstock.model.offset import Offset
from penstock.model.settings.broker import parse_broker
from penstock.model.settings.listener import ListenAddress
from penstock.model.settings.topic import TopicSettings
from penstock.raft.times import Times
from penstock.raft.voters import ReplicaKey, VoterSet
from penstock.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.wire.messages.describe_cluster import (
    CONTROLLERS,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.world.ports import Address, Listener
from penstock.world.real import real_world
from penstock.world.tasks import TaskGroup

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
NODES = tuple(NodeId(number) for number in (1, 2, 3))
LISTENER = "CONTROLLER"
WAIT_S = 30


def directory_id(node: NodeId) -> bytes:
    return bytes((node,)) * 16


class Peer:
    """One controller with its listener, from its start to its end."""

    def __init__(
        self, node: NodeId, path: Path, addresses: dict[NodeId, Address], **settings: str
    ) -> None:
        self.node = node
        self.image = Image()
        self._addresses = addresses
        self.world = real_world(inline=True)
        self._settings = parse_broker(
            {"broker.session.timeout.ms": "3600000"}  # the broker of these tests sends no heartbeat
            | {name.replace("_", "."): value for name, value in settings.items()}
        )
        directory = str(path / f"node-{node}" / f"{METADATA_TOPIC}-0")
        self.world.disk.make_directory(directory)
        self.log = open_log(
            disk=self.world.disk,
            directory=directory,
            partition=TopicPartition(METADATA_TOPIC, 0),
            topic_id=METADATA_TOPIC_ID,
            settings=TopicSettings(),
            now_ms=self.world.clock.now_ms(),
        )
        self._member = QuorumMember(
            key=ReplicaKey(node, directory_id(node)),
            cluster_id=CLUSTER_ID,
            voters=VoterSet(ReplicaKey(one, directory_id(one)) for one in NODES),
            endpoints=(),
            times=Times(election_timeout_ms=300, fetch_timeout_ms=600),
            request_timeout_ms=1_000,
        )
        self.controller = LocalController(
            log=self.log,
            world=self.world,
            member=self._member,
            settings=self._settings,
            publish=self._publish,
        )
        self._tasks: asyncio.Task[None] | None = None

    @property
    def is_active(self) -> bool:
        return self.controller.is_active

    @property
    def address(self) -> Address:
        return self._addresses[self.node]

    async def start(self) -> None:
        address = self._addresses.get(self.node, Address(host="127.0.0.1", port=0))
        listen = ListenAddress(listener=LISTENER, host=address.host, port=address.port)
        bound = await bind_listeners(self.world.network, [listen], socket_options(self._settings))
        self._addresses[self.node] = bound[LISTENER].address
        self._tasks = asyncio.create_task(self._run(bound))

    async def kill(self) -> None:
        """Nothing is said to anybody, and nothing is closed cleanly."""
        assert self._tasks is not None
        self._tasks.cancel()
        await asyncio.gather(self._tasks, return_exceptions=True)
        self.log.abandon()

    async def ask(self, request: Any) -> Any:
        return await self.controller.ask(request)

    def _publish(self, delta: Delta, image: Image) -> None:
        self.image = image

    async def _run(self, bound: dict[str, Listener]) -> None:
        async with TaskGroup() as group:
            self.controller.publish_from(Offset(0))
            self.controller.open()
            services = ControllerServices(
                node_id=self.node,
                cluster_id=CLUSTER_ID,
                settings=self._settings,
                world=self.world,
                local=self.controller,
                served=versions_served(SERVED_BY_CONTROLLERS),
            )
            server = Server(services, SERVED_BY_CONTROLLERS, group, bound)
            links = Links(
                network=self.world.network,
                client_id=f"node-{self.node}",
                address_of=self._addresses.get,
                tasks=group,
                open_channel=open_channel,
            )
            try:
                server.open()
                server.serve()
                await self.controller.run(
                    QuorumPeers(
                        links=links, member=self._member, driver=lambda: self.controller.quorum
                    )
                )
            finally:
                links.close()
                server.hang_up()
                for listener in bound.values():
                    listener.close()


class Quorum:
    def __init__(self, path: Path, **settings: str) -> None:
        self.path = path
        self.settings = settings
        self.addresses: dict[NodeId, Address] = {}
        self.running: dict[NodeId, Peer] = {}
        self.listening = socket.create_server(("127.0.0.1", 0))

    async def start(self, node: NodeId) -> Peer:
        peer = self.running[node] = Peer(node, self.path, self.addresses, **self.settings)
        await peer.start()
        return peer

    async def kill(self, node: NodeId) -> None:
        await self.running.pop(node).kill()

    async def active(self) -> Peer:
        """The active controller, once there is one that takes requests."""
        async with asyncio.timeout(WAIT_S):
            while True:
                for peer in self.running.values():
                    if peer.is_active:
                        return peer
                await asyncio.sleep(0.01)

    async def until(self, condition: Callable[[Peer], bool]) -> None:
        """Until it holds on every node that runs."""
        async with asyncio.timeout(WAIT_S):
            while True:
                if all(condition(peer) for peer in self.running.values()):
                    return
                await asyncio.sleep(0.01)


@asynccontextmanager
async def quorum_of_three(path: Path, **settings: str) -> AsyncIterator[Quorum]:
    quorum = Quorum(path, **settings)
    for node in NODES:
        await quorum.start(node)
    try:
        yield quorum
    finally:
        for node in list(quorum.running):
            await quorum.kill(node)
        quorum.listening.close()


async def join_broker(peer: Peer, quorum: Quorum) -> None:
    """A broker that topics can be placed on. Somebody listens there: it is not taken for dead."""
    port = quorum.listening.getsockname()[1]
    registration = registration_of(
        node_id=NodeId(1),
        cluster_id=CLUSTER_ID,
        incarnation=b"i" * 16,
        rack=None,
        endpoints=(Endpoint(listener="PLAINTEXT", host="localhost", port=port),),
        directories=(b"d" * 16,),
    )
    registered = await peer.ask(registration)
    epoch = registered.broker_epoch
    await peer.ask(
        BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch)
    )


async def create(peer: Peer, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    reply = await peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    assert reply.topics[0].error_code == ErrorCode.NONE, reply


def in_a_quorum(path: Path, scenario: Callable[[Quorum], Awaitable[None]], **settings: str) -> None:
    async def whole() -> None:
        async with quorum_of_three(path, **settings) as quorum:
            await scenario(quorum)

    asyncio.run(whole())


def test_every_controller_learns_what_the_active_one_decides(tmp_path: Path) -> None:
    async def scenario(quorum: Quorum) -> None:
        active = await quorum.active()
        await join_broker(active, quorum)
        await create(active, "orders")
        assert "orders" in active.image.topics_by_name
        await quorum.until(lambda peer: "orders" in peer.image.topics_by_name)
        assert [peer.is_active for peer in quorum.running.values()].count(True) == 1

    in_a_quorum(tmp_path, scenario)


def test_a_controller_that_is_not_active_refuses_to_decide(tmp_path: Path) -> None:
    async def scenario(quorum: Quorum) -> None:
        active = await quorum.active()
        other = next(peer for peer in quorum.running.values() if peer is not active)
        try:
            await create(other, "orders")
        except RequestError as refusal:
            assert refusal.code == ErrorCode.NOT_CONTROLLER
            assert str(refusal.message) == "this controller is not the active one"
        else:
            raise AssertionError("it was created")

    in_a_quorum(tmp_path, scenario)


def test_acked_topics_survive_the_loss_of_each_active_controller(tmp_path: Path) -> None:
    async def scenario(quorum: Quorum) -> None:
        active = await quorum.active()
        await join_broker(active, quorum)
        for number in range(6):
            active = await quorum.active()
            await create(active, f"topic-{number}")
            await quorum.kill(active.node)
            survivor = await quorum.active()
            assert f"topic-{number}" in survivor.image.topics_by_name
            await quorum.start(active.node)
        names = {f"topic-{number}" for number in range(6)}
        await quorum.until(lambda peer: names == set(peer.image.topics_by_name))

    in_a_quorum(tmp_path, scenario)


ASKED_FOR_CONTROLLERS = DescribeClusterRequest(endpoint_type=CONTROLLERS)


@asynccontextmanager
async def connected_to(peer: Peer) -> AsyncIterator[Channel]:
    """By its listener of controllers."""
    async with TaskGroup() as tasks:
        channel = await open_channel(
            peer.world.network,
            peer.address,
            client_id="test",
            tasks=tasks,
            timeout_ms=WAIT_S * 1000,
        )
        yield channel
        channel.close()


async def left_alone(quorum: Quorum) -> Peer:
    """The controller that was active, which has noticed that nobody follows it any more."""
    active = await quorum.active()
    for node in set(NODES) - {active.node}:
        await quorum.kill(node)
    await quorum.until(lambda peer: peer.controller.leader_id is None)
    return active


def test_who_asks_for_the_controllers_during_an_election_is_told_who_won(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_controllers, "ELECTION_WAIT_S_MAX", WAIT_S)  # on a busy machine

    async def scenario(quorum: Quorum) -> None:
        alone = await left_alone(quorum)
        async with connected_to(alone) as channel:
            asking = channel.post(ASKED_FOR_CONTROLLERS, DescribeClusterResponse)
            async with connected_to(alone):
                assert not asking.done(), "it answers others meanwhile, and this one later"
            for node in set(NODES) - {alone.node}:
                await quorum.start(node)
            assert (await asking).controller_id in NODES

    in_a_quorum(tmp_path, scenario)


def test_who_asks_where_no_controller_can_be_elected_is_told_that_there_is_none(
    tmp_path: Path,
) -> None:
    async def scenario(quorum: Quorum) -> None:
        async with connected_to(await left_alone(quorum)) as channel:
            told = await channel.post(ASKED_FOR_CONTROLLERS, DescribeClusterResponse)
            assert told.controller_id == -1

    in_a_quorum(tmp_path, scenario)


SMALL_SNAPSHOTS = {
    "metadata_log_max_record_bytes_between_snapshots": "1000",
    "metadata_max_retention_bytes": "1000",
    "metadata_max_retention_ms": "1",
}


async def create_until_trimmed(quorum: Quorum, *, beyond: int, from_number: int = 0) -> int:
    """Topics until the log of the active controller begins later; returns how many there are. Where
    another one becomes active meanwhile, as on a busy machine, it is asked again.
    """
    count = from_number
    while (active := await quorum.active()).log.start_offset <= beyond:
        name = f"topic-{count}"
        try:
            await create(active, name)
        except RequestError:
            if name not in (await quorum.active()).image.topics_by_name:
                continue
        count += 1
    return count


def damage_snapshots(directory: str) -> None:
    """The last byte of each is another one."""
    for snapshot in Path(directory).glob("*.checkpoint"):
        data = snapshot.read_bytes()
        snapshot.write_bytes(data[:-1] + bytes((data[-1] ^ 1,)))


def test_a_damaged_snapshot_is_not_taken_over_and_harms_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(quorum: Quorum) -> None:
        active = await quorum.active()
        await join_broker(active, quorum)
        absent = next(peer for peer in quorum.running.values() if peer is not active)
        await quorum.kill(absent.node)
        count = await create_until_trimmed(quorum, beyond=0)
        damaged_at = (await quorum.active()).log.start_offset
        for peer in quorum.running.values():
            damage_snapshots(peer.log.directory)
        returned = await quorum.start(absent.node)
        async with asyncio.timeout(WAIT_S):
            while True:
                if "damaged=true" in caplog.text:
                    break
                await asyncio.sleep(0.01)
        assert returned.log.start_offset == 0, "nothing was taken over"
        count = await create_until_trimmed(quorum, beyond=damaged_at, from_number=count)
        await quorum.until(lambda peer: len(peer.image.topics_by_name) == count)

    in_a_quorum(tmp_path, scenario, **SMALL_SNAPSHOTS)


def test_a_controller_that_missed_a_snapshot_fetches_it(tmp_path: Path) -> None:
    async def scenario(quorum: Quorum) -> None:
        active = await quorum.active()
        await join_broker(active, quorum)
        absent = next(peer for peer in quorum.running.values() if peer is not active)
        await quorum.kill(absent.node)
        count = await create_until_trimmed(quorum, beyond=0)
        returned = await quorum.start(absent.node)
        await quorum.until(lambda peer: len(peer.image.topics_by_name) == count)
        assert returned.log.start_offset > 0
        await create(await quorum.active(), "one-more")
        await quorum.until(lambda peer: "one-more" in peer.image.topics_by_name)

    in_a_quorum(tmp_path, scenario, **SMALL_SNAPSHOTS)

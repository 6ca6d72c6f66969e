"""A node that does not answer for its markers is asked again, on a new connection."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from penstock.broker.api import api_versions
from penstock.broker.controller.links import Links
from penstock.broker.coordinators.marker_requests import REPLY_WAIT_MS_MAX, MarkerRequests
from penstock.broker.network.server import Server, bind_listeners, socket_options
from penstock.broker.request.api_table import AnyApi, Api, versions_served
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.client.network.channel import open_channel
from penstock.metadata.image.image import Delta, Image
from penstock.metadata.image.topic import PartitionImage, TopicImage
from penstock.model.identity import NodeId, ProducerEpoch, ProducerId, TopicId, TopicPartition
from penstock.model.offset import LeaderEpoch
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.listener import ListenAddress
from penstock.transactions.markers import SendMarkers
from penstock.wire.api import ApiKey
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.world.ports import Address, World
from penstock.world.tasks import TaskGroup
from rig.raw_serving import HOST, run_in_virtual_time
from rig.sole_controller import sole_controller

HERE, LEADER = NodeId(1), NodeId(2)
ORDERS = TopicPartition("orders", 0)
LISTENER = "PLAINTEXT"
MARKERS = SendMarkers(
    transactional_id="billing",
    number=1,
    producer_id=ProducerId(7),
    producer_epoch=ProducerEpoch(0),
    coordinator_epoch=0,
    commit=True,
    partitions=(ORDERS,),
    transaction_version=1,
)
PARTITION = PartitionImage(
    replicas=(LEADER,), isr=(LEADER,), leader=LEADER, leader_epoch=LeaderEpoch(5), partition_epoch=0
)
TOPIC = TopicImage(name="orders", topic_id=TopicId(b"t" * 16), partitions=(PARTITION,))
IMAGE = Image(topics_by_name={"orders": TOPIC}, topics_by_id={TOPIC.topic_id: TOPIC})
WRITTEN = WriteTxnMarkersResponse(
    markers=[
        WritableTxnMarkerResult(
            producer_id=7,
            topics=[
                WritableTxnMarkerTopicResult(
                    name="orders",
                    partitions=[WritableTxnMarkerPartitionResult(partition_index=0)],
                )
            ],
        )
    ]
)


class LeaderNode:
    """Writes the markers of its `answered_from`-th request, and says nothing to those before."""

    def __init__(self, answered_from: int) -> None:
        self.received: list[tuple[Address, WriteTxnMarkersRequest]] = []
        self._answered_from = answered_from

    def handle(
        self, services: Services, request: WriteTxnMarkersRequest, context: RequestContext
    ) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
        self.received.append((context.peer, request))
        if len(self.received) >= self._answered_from:
            return WRITTEN
        return asyncio.get_running_loop().create_future()

    @property
    def apis(self) -> tuple[AnyApi, ...]:
        markers: AnyApi = Api(
            key=ApiKey.WRITE_TXN_MARKERS,
            versions=WriteTxnMarkersRequest.VERSIONS,
            request=WriteTxnMarkersRequest,
            handle=self.handle,
            refuse=lambda *_: WriteTxnMarkersResponse(),
        )
        return markers, api_versions.API


async def serve(
    leader: LeaderNode, world: World, group: TaskGroup, address: Address | None = None
) -> Server:
    settings, nothing = BrokerSettings(), cast(Any, None)
    services = Services(
        node_id=LEADER, cluster_id="test", settings=settings, world=world, image=Image(),
        endpoints=(), controller=nothing, partitions=nothing, groups=nothing, transactions=nothing,
        producer_ids=nothing, fetch_sessions=nothing,
        local=sole_controller(world, node_id=LEADER, settings=settings),
        directory_moves=cast(Any, None),
        served=versions_served(leader.apis),
    )  # fmt: skip
    port = 0 if address is None else address.port
    listening = ListenAddress(listener=LISTENER, host=HOST, port=port)
    bound = await bind_listeners(world.network, [listening], socket_options(settings))
    server = Server(services, leader.apis, group, bound)
    server.open()
    server.serve()
    return server


async def with_requests(
    world: World,
    leader: LeaderNode,
    scenario: Callable[[MarkerRequests[str], Server, TaskGroup, World], Awaitable[None]],
    finished: list[tuple[str, TopicPartition]],
) -> None:
    async with TaskGroup() as group:
        server = await serve(leader, world, group)
        address = server.listeners[LISTENER].address
        links = Links(
            network=world.network,
            client_id="node-1",
            address_of={LEADER: address}.get,
            tasks=group,
            open_channel=open_channel,
        )
        requests: MarkerRequests[str] = MarkerRequests(
            links=links,
            node_id=HERE,
            clock=world.clock,
            is_wanted=lambda _: True,
            finished=lambda owner, name: finished.append((owner, name)),
            returned=lambda *_: None,
            refused=lambda *_: None,
        )
        requests.apply(Delta(topics_created=(TOPIC,)), IMAGE)
        group.start(requests.run())
        try:
            await scenario(requests, server, group, world)
        finally:
            links.close()
            server.hang_up()
            group.cancel()


def test_a_late_reply_closes_the_connection_and_a_later_request_replaces_the_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    leader = LeaderNode(answered_from=3)
    finished: list[tuple[str, TopicPartition]] = []

    async def scenario(requests: MarkerRequests[str], *_: object) -> None:
        requests.add("billing", MARKERS, ORDERS)
        await asyncio.sleep(4 * REPLY_WAIT_MS_MAX / 1000)

    with caplog.at_level(logging.WARNING):
        run_in_virtual_time(lambda world: with_requests(world, leader, scenario, finished))
    assert finished == [("billing", ORDERS)]
    connections = [peer for peer, _ in leader.received]
    assert len(set(connections)) == len(connections) == 3
    numbers = [request.sender and request.sender.request_number for _, request in leader.received]
    assert numbers == sorted(set(numbers), key=lambda number: number or 0)
    for _, request in leader.received:
        [marker] = request.markers
        assert marker.topics[0].leader_epochs == [5]
    assert sum("markers node_id=2 sent=false" in text for text in caplog.messages) == 1


def test_a_node_that_is_down_gets_its_markers_when_it_listens_again() -> None:
    leader = LeaderNode(answered_from=1)
    finished: list[tuple[str, TopicPartition]] = []

    async def scenario(
        requests: MarkerRequests[str], server: Server, group: TaskGroup, world: World
    ) -> None:
        address = server.listeners[LISTENER].address
        server.hang_up()
        requests.add("billing", MARKERS, ORDERS)
        await asyncio.sleep(60)
        assert not finished
        again = await serve(leader, world, group, address)
        await asyncio.sleep(60)
        again.hang_up()

    run_in_virtual_time(lambda world: with_requests(world, leader, scenario, finished))
    assert finished == [("billing", ORDERS)]
    assert len(leader.received) == 1

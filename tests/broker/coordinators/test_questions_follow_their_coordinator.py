"""A question about a transaction goes to the new coordinator if the former one does not answer."""

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

from penstock.broker.api import api_versions
from penstock.broker.controller.links import Links
from penstock.broker.coordinators.verification_requests import VerificationRequests
from penstock.broker.network.server import Server, bind_listeners, socket_options
from penstock.broker.request.api_table import AnyApi, Api, versions_served
from penstock.broker.request.context import RequestContext
from penstock.broker.request.services import Services
from penstock.client.network.channel import open_channel
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId, ProducerEpoch, ProducerId, TopicPartition
from penstock.model.settings.broker import BrokerSettings
from penstock.model.settings.listener import ListenAddress
from penstock.transactions.enlist import Enlist, Enlisted, enlist_reply, enlistments
from penstock.transactions.state import Identity
from penstock.wire.api import ApiKey
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from penstock.world.ports import Address, World
from penstock.world.tasks import TaskGroup
from rig.raw_serving import HOST, run_in_virtual_time
from rig.sole_controller import sole_controller

FORMER, LATER = NodeId(2), NodeId(3)
ORDERS = TopicPartition("orders", 0)
LISTENER = "PLAINTEXT"
ENLIST = Enlist(
    transactional_id="billing",
    producer=Identity(ProducerId(7), ProducerEpoch(0)),
    partitions=(ORDERS,),
    verify_only=True,
    client_version=2,
)


class CoordinatorNode:
    """Finds every transaction open, or says nothing."""

    def __init__(self, *, answers: bool) -> None:
        self.received = 0
        self._answers = answers

    def handle(
        self, services: Services, request: AddPartitionsToTxnRequest, context: RequestContext
    ) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
        self.received += 1
        if not self._answers:
            return asyncio.get_running_loop().create_future()
        version = context.header.api_version
        results = [
            (
                one.transactional_id,
                Enlisted(
                    errors=dict.fromkeys(one.partitions, ErrorCode.NONE), error=ErrorCode.NONE
                ),
            )
            for one in enlistments(request, version=version)
        ]
        return enlist_reply(results, version=version)

    async def serve(self, world: World, group: TaskGroup) -> tuple[Server, Address]:
        asked: AnyApi = Api(
            key=ApiKey.ADD_PARTITIONS_TO_TXN,
            versions=AddPartitionsToTxnRequest.VERSIONS,
            request=AddPartitionsToTxnRequest,
            handle=self.handle,
            refuse=lambda *_: AddPartitionsToTxnResponse(),
        )
        apis = (asked, api_versions.API)
        settings, nothing = BrokerSettings(), cast(Any, None)
        services = Services(
            node_id=FORMER, cluster_id="test", settings=settings, world=world, image=Image(),
            endpoints=(), controller=nothing, partitions=nothing, groups=nothing,
            transactions=nothing, producer_ids=nothing, fetch_sessions=nothing,
            local=sole_controller(world, node_id=FORMER, settings=settings),
            directory_moves=cast(Any, None),
            served=versions_served(apis),
        )  # fmt: skip
        listening = ListenAddress(listener=LISTENER, host=HOST, port=0)
        bound = await bind_listeners(world.network, [listening], socket_options(settings))
        server = Server(services, apis, group, bound)
        server.open()
        server.serve()
        return server, server.listeners[LISTENER].address


class Moved:
    """Who coordinates, as this node knows it."""

    node_id: NodeId | None = FORMER

    def coordinator_of(self, _: str) -> NodeId | None:
        return self.node_id


async def ask_while_it_moves(world: World, to: NodeId | None) -> tuple[object, list[int]]:
    former, later, known = CoordinatorNode(answers=False), CoordinatorNode(answers=True), Moved()
    async with TaskGroup() as group:
        served = {
            FORMER: await former.serve(world, group),
            LATER: await later.serve(world, group),
        }
        links = Links(
            network=world.network,
            client_id="node-1",
            address_of={node: address for node, (_, address) in served.items()}.get,
            tasks=group,
            open_channel=open_channel,
        )
        requests = VerificationRequests(links, known.coordinator_of)
        group.start(requests.run())
        asker = requests.ask(FORMER, ENLIST)
        await asyncio.sleep(1)
        assert not asker.done()
        known.node_id = to
        requests.coordinators_moved()
        await asyncio.sleep(1)
        assert asker.done()
        outcome = asker.exception() or asker.result()
        links.close()
        for server, _ in served.values():
            server.hang_up()
        group.cancel()
    return outcome, [former.received, later.received]


def outcome_of(to: NodeId | None) -> tuple[Any, list[int]]:
    outcomes: list[tuple[object, list[int]]] = []

    async def scenario(world: World) -> None:
        outcomes.append(await ask_while_it_moves(world, to))

    run_in_virtual_time(scenario)
    [outcome] = outcomes
    return outcome


def test_the_new_coordinator_is_asked_at_once() -> None:
    answer, received = outcome_of(LATER)
    assert answer.errors == {ORDERS: ErrorCode.NONE}
    assert received == [1, 1]


def test_the_producer_tries_again_while_no_other_node_coordinates() -> None:
    refusal, received = outcome_of(None)
    assert isinstance(refusal, RequestError)
    assert refusal.code is ErrorCode.NOT_COORDINATOR
    assert received == [1, 0]

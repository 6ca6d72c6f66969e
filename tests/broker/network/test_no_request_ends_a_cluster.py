"""Whatever is sent to the listeners of a cluster, however absurd, ends no node and no quorum.

Every API in every version that controllers serve, beside those that brokers send each other, over
real sockets, from several connections. Afterwards each node is alive, and the cluster decides. A
failure names the seed, which draws nearly the same again.
"""

import asyncio
import random
from pathlib import Path

import pytest

from penstock.broker.api import add_partitions_to_txn, unregister_broker, write_txn_markers
from penstock.broker.network.api_registry import SERVED
from penstock.broker.network.controller_apis import SERVED_BY_CONTROLLERS
from penstock.broker.network.dispatch import is_served
from penstock.broker.request.api_table import AnyApi
from penstock.model.identity import NodeId
from penstock.world.ports import Address
from rig.node_cluster import NodeCluster, node_cluster
from rig.nonsense_of_nodes import AbsurdNode
from rig.nonsense_talker import Talker, assert_serves

# A broker that is unregistered ends, as it should: that is no nonsense.
BY_CONTROLLERS: list[tuple[AnyApi, int]] = [
    (api, version)
    for api in SERVED_BY_CONTROLLERS
    for version in range(api.versions.min, api.versions.max + 1)
    if is_served(api, version) and api is not unregister_broker.API
]
BETWEEN_BROKERS: list[tuple[AnyApi, int]] = [
    (api, version)
    for api in SERVED
    for version in range(api.versions.min, api.versions.max + 1)
    if api in (add_partitions_to_txn.API, write_txn_markers.API) and is_served(api, version)
]
ROUNDS = 8


@pytest.mark.parametrize("seed", range(3))
def test_no_request_ends_a_cluster(tmp_path: Path, seed: int) -> None:
    asyncio.run(converse(tmp_path, random.Random(seed)))


async def converse(path: Path, dice: random.Random) -> None:
    async with node_cluster(path) as cluster:
        absurd = AbsurdNode(dice, BY_CONTROLLERS)
        nodes = [cluster.running[number] for number in (1, 2, 3)]
        # Kept: a drawn request may remove a voter, which then serves all the same.
        controllers = {one: controller_address(cluster, one) for one in (1, 2, 3)}
        to_controllers = [Talker(address, absurd) for address in controllers.values()]
        to_brokers = [Talker(node.addresses[0], absurd) for node in nodes]
        every_version = BY_CONTROLLERS * ROUNDS
        dice.shuffle(every_version)
        for api, version in every_version:
            aim(cluster, absurd)
            await dice.choice(to_controllers).ask(absurd.message(api.request, version), version)
            api, version = dice.choice(BETWEEN_BROKERS)
            await dice.choice(to_brokers).ask(absurd.message(api.request, version), version)
        for talker in (*to_controllers, *to_brokers):
            await talker.hear_all()
            talker.close()
        for number, node in zip((1, 2, 3), nodes, strict=True):
            assert not node._ended.is_set(), await node.failed()
            await assert_serves(controllers[number])
            await assert_serves(node.addresses[0])
            await cluster.create_topic(f"after-{number}", through=number, partitions=1)


def controller_address(cluster: NodeCluster, number: int) -> Address:
    address = cluster.inside(number).local.quorum.address_of(NodeId(number))
    assert address is not None
    return address


def aim(cluster: NodeCluster, absurd: AbsurdNode) -> None:
    one = cluster.inside(1).local
    member = one.quorum.member
    outsiders = [broker for broker in one.image.brokers.values() if broker.node_id not in (1, 2, 3)]
    absurd.aim(
        epoch=one.quorum.replica.epoch,
        end_offset=one.quorum.replica.state.log.end_offset,
        broker_epochs=[broker.epoch for broker in outsiders],
        directories=[key.directory_id for key in member.voters.keys.values() if key.directory_id],
    )

"""Requests about transactions that come too early, too late or in a crowd, on several nodes.

Each gets an error that Kafka's clients understand, and what was answered holds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.client.network.cluster import Cluster
from penstock.client.network.coordinators import LOST, CoordinatorKind, Coordinators
from penstock.client.produce.transactional_producer import TransactionalProducer
from penstock.groups.partitioning import partition_of
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode
from penstock.model.identity import NodeId
from penstock.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from penstock.world.real import real_world
from rig.node_cluster import NodeCluster, node_cluster

NODES = (1, 2, 3)
ORDERS = "orders"
TRANSACTION_TOPIC = "__transaction_state"
STORM = 60  # transactional ids
ANSWER_MS = 30_000
# After these a client looks for the coordinator, or asks again.
UNDERSTOOD = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}

Scenario = Callable[[NodeCluster, Cluster], Awaitable[None]]


def in_a_cluster(path: Path, scenario: Scenario) -> None:
    async def whole() -> None:
        async with node_cluster(path, transaction_state_log_num_partitions="6") as cluster:
            await cluster.create_topic(ORDERS, through=1, replicas=3)
            world = real_world(inline=True)
            bootstrap = [cluster.address(number) for number in NODES]
            async with Cluster(world.network, world.clock, bootstrap) as clients:
                await Coordinators(clients, kind=CoordinatorKind.TRANSACTION).of("first")
                for name in (ORDERS, TRANSACTION_TOPIC):
                    await cluster.until(lambda image, name=name: name in image.topics_by_name)
                await scenario(cluster, clients)

    asyncio.run(whole())


def image(cluster: NodeCluster) -> Image:
    return cluster.inside(next(iter(cluster.running))).local.image


def leader_of(cluster: NodeCluster, topic: str, index: int) -> NodeId:
    leader = image(cluster).topics_by_name[topic].partitions[index].leader
    assert leader is not None
    return leader


def coordinator_of(cluster: NodeCluster, transactional_id: str) -> NodeId:
    count = len(image(cluster).topics_by_name[TRANSACTION_TOPIC].partitions)
    index = partition_of(transactional_id, partition_count=count)
    return leader_of(cluster, TRANSACTION_TOPIC, index)


class Taken:
    """The identities that one transactional id got, each of which replaces the one before."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.identities: list[tuple[int, int]] = []
        self.refused: set[ErrorCode] = set()

    async def take(self, clients: Cluster) -> None:
        """Asks until it has another one."""
        key = self.transactional_id
        request = InitProducerIdRequest(transactional_id=key, transaction_timeout_ms=60_000)
        coordinators = Coordinators(clients, kind=CoordinatorKind.TRANSACTION)
        while True:
            try:
                reply = await coordinators.ask_once(
                    key, request, InitProducerIdResponse, answer_ms_max=ANSWER_MS
                )
            except LOST:
                coordinators.forget(key)
                await asyncio.sleep(0.05)
                continue
            if reply.error_code == ErrorCode.NONE:
                self.identities.append((reply.producer_id, reply.producer_epoch))
                return
            self.refused.add(ErrorCode(reply.error_code))
            coordinators.forget(key)
            await asyncio.sleep(0.05)


def test_a_storm_of_producers_over_a_failover_gets_identities_that_only_grow(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: NodeCluster, clients: Cluster) -> None:
        storm = [Taken(f"id-{number}") for number in range(STORM)]
        await asyncio.gather(*(one.take(clients) for one in storm))
        killed = int(coordinator_of(cluster, "id-0"))
        asking = asyncio.gather(*(one.take(clients) for one in storm for _ in range(2)))
        await asyncio.sleep(0)
        await cluster.kill(killed)
        await asking
        await asyncio.gather(*(one.take(clients) for one in storm))
        for one in storm:
            assert one.refused <= UNDERSTOOD, one.transactional_id
            assert len(set(one.identities)) == len(one.identities) == 4
            assert max(one.identities) == one.identities[-1]
        owners = [producer_id for one in storm for producer_id in {i for i, _ in one.identities}]
        assert len(set(owners)) == len(owners), "one producer id for two transactional ids"

    in_a_cluster(tmp_path, scenario)


def marker_of(producer_id: int, epoch: int, *, coordinator_epoch: int) -> WriteTxnMarkersRequest:
    topic = WritableTxnMarkerTopic(name=ORDERS, partition_indexes=[0])
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=False,
        topics=[topic],
        coordinator_epoch=coordinator_epoch,
    )
    return WriteTxnMarkersRequest(markers=[marker])


def test_a_marker_of_a_coordinator_that_was_replaced_is_fenced(tmp_path: Path) -> None:
    """Its successor has written markers for the producer already."""

    async def scenario(cluster: NodeCluster, clients: Cluster) -> None:
        transactional_id = "billing"
        async with TransactionalProducer(clients, transactional_id) as producer:
            killed = int(coordinator_of(cluster, transactional_id))
            await cluster.kill(killed)
            await producer.begin()
            await producer.send(ORDERS, b"order", partition=0)
            await producer.commit()
            assert int(coordinator_of(cluster, transactional_id)) != killed
            await producer.begin()
            await producer.send(ORDERS, b"next", partition=0)
            await producer.flush()
            identity = producer.state.identity
            assert identity is not None
            late = marker_of(identity.producer_id, identity.epoch, coordinator_epoch=0)
            leader = leader_of(cluster, ORDERS, 0)
            reply = await clients.ask(leader, late, WriteTxnMarkersResponse)
            [result] = reply.markers[0].topics[0].partitions
            assert result.error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
            await producer.commit()  # nothing has ended it

    in_a_cluster(tmp_path, scenario)


@pytest.mark.parametrize("version", [3, 5])
def test_partitions_of_ids_that_nobody_knows_are_not_added(tmp_path: Path, version: int) -> None:
    """By the coordinator; any other node says that it is none."""

    async def scenario(cluster: NodeCluster, clients: Cluster) -> None:
        topics = [AddPartitionsToTxnTopic(name=ORDERS, partitions=[0])]
        request = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id="nobody", producer_id=7, topics=topics
                )
            ],
            v3_and_below_transactional_id="nobody",
            v3_and_below_producer_id=7,
            v3_and_below_topics=topics,
        )
        coordinator = coordinator_of(cluster, "nobody")
        for number in NODES:
            channel = await clients.channel(NodeId(number))
            reply = await channel.ask(
                request, AddPartitionsToTxnResponse, timeout_ms=ANSWER_MS, version=version
            )
            results = reply.results_by_topic_v3_and_below
            if version > 3:
                results = reply.results_by_transaction[0].topic_results
            [result] = results[0].results_by_partition
            expected = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            if number != coordinator:
                expected = ErrorCode.NOT_COORDINATOR
            assert result.partition_error_code == expected

    in_a_cluster(tmp_path, scenario)

"""A producer that comes to a broker which leads no longer goes where that one says (KIP-951)."""

import asyncio
from pathlib import Path

from penstock.client.network.cluster import Cluster, ClusterRules
from penstock.client.produce.accumulator import BatchRules
from penstock.client.produce.producer import Producer, ProducerRules
from penstock.metadata.image.image import Image
from penstock.model.identity import TopicPartition
from penstock.world.real import real_world
from rig.node_cluster import node_cluster

ORDERS = TopicPartition("orders", 0)
LONGER_THAN_THE_TEST_MS = 600_000
WAIT_S_MAX = 120


def test_batch_is_sent_to_the_leader_that_a_refusal_names_without_waiting(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node_cluster(tmp_path) as nodes:
            await nodes.create_topic("orders", through=1, partitions=1, replicas=3)
            await nodes.until(lambda image: "orders" in image.topics_by_name)
            first = leader(nodes.inside(1).local.image)
            world = real_world(inline=True)
            rules = ClusterRules(backoff_ms=LONGER_THAN_THE_TEST_MS)
            async with (
                Cluster(world.network, world.clock, [nodes.address(first)], rules=rules) as cluster,
                Producer(
                    cluster,
                    rules=ProducerRules(batches=BatchRules(backoff_ms=LONGER_THAN_THE_TEST_MS)),
                ) as producer,
            ):
                await (await producer.send("orders", b"before"))
                asked = cluster.view
                await nodes.stop(first)
                await nodes.start(first)
                await nodes.until(lambda image: leader(image) != first)
                # The broker that led is back, and follows. Nothing else tells the client of it.
                await (await producer.send("orders", b"after"))
                assert asked.leader_of(ORDERS) == first
                assert cluster.view.leader_of(ORDERS) == leader(nodes.inside(first).local.image)

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S_MAX))


def leader(image: Image) -> int:
    found = image.topics_by_name["orders"].partitions[0].leader
    return -1 if found is None else int(found)

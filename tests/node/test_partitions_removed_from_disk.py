"""A broker whose partition was removed, or replaced, while it was down does not lead it.

`older` has the partition as it was when half of the records were written.
"""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.client.network.cluster import Cluster
from penstock.client.produce.producer import Producer
from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import PartitionImage
from penstock.model.identity import NodeId, TopicPartition
from penstock.world.real import real_world
from rig.node_cluster import NodeCluster, node_cluster

TOPIC = "orders"
RECORDS = 50
SECONDS_MAX = 120


def removed(partition: Path, older: Path) -> None:
    shutil.rmtree(partition)


def restored_from_an_older_disk(partition: Path, older: Path) -> None:
    shutil.rmtree(partition)
    shutil.copytree(older, partition)


def of_another_topic(partition: Path, older: Path) -> None:
    claim = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    (partition / "partition.metadata").write_text(claim, encoding="utf-8")


def without_segments(partition: Path, older: Path) -> None:
    for segment in partition.glob("*.log"):
        segment.unlink()


async def produce(cluster: NodeCluster) -> None:
    world = real_world(inline=True)
    async with (
        Cluster(world.network, world.clock, [cluster.address(1)]) as clients,
        Producer(clients) as producer,
    ):
        await asyncio.gather(
            *[await producer.send(TOPIC, b"%d" % number) for number in range(RECORDS // 2)]
        )


async def until_committed(cluster: NodeCluster) -> None:
    """Until the high watermark that each node has stored is at the end of the log."""
    for node in (1, 2, 3):
        broker = cluster.inside(node).broker
        assert broker is not None
        replica = broker.partitions.replica(TopicPartition(TOPIC, 0))
        assert replica is not None
        while replica.log.noted_watermark != RECORDS:  # noqa: ASYNC110 - every few seconds
            await asyncio.sleep(0.05)


def partition_in(image: Image) -> PartitionImage:
    return image.topics_by_name[TOPIC].partitions[0]


@pytest.mark.parametrize(
    "damage", [removed, restored_from_an_older_disk, of_another_topic, without_segments]
)
def test_what_another_replica_has_is_not_cut_off(
    tmp_path: Path, damage: Callable[[Path, Path], None]
) -> None:
    async def scenario() -> None:
        settings = {
            "min_insync_replicas": "2",
            "broker_session_timeout_ms": "1500",
            "broker_heartbeat_interval_ms": "200",
            "replica_high_watermark_checkpoint_interval_ms": "1000",
        }
        async with node_cluster(tmp_path, 3, **settings) as cluster:
            await cluster.create_topic(TOPIC, through=1, partitions=1, replicas=3)
            await cluster.until(lambda image: TOPIC in image.topics_by_name)
            await produce(cluster)
            for node in (1, 2):
                shutil.copytree(
                    tmp_path / f"node-{node}" / f"{TOPIC}-0", tmp_path / "older" / f"{node}"
                )
            await produce(cluster)
            await until_committed(cluster)
            for node in (1, 2, 3):
                await cluster.kill(node)
            for node in (1, 2):
                damage(tmp_path / f"node-{node}" / f"{TOPIC}-0", tmp_path / "older" / f"{node}")
            await cluster.start(1, 2)
            await cluster.until(lambda image: image.brokers[NodeId(3)].fenced)
            assert partition_in(cluster.inside(1).local.image).leader is None
            await cluster.start(3)
            await cluster.until(lambda image: partition_in(image).leader == NodeId(3))
            leading = cluster.inside(3).broker
            assert leading is not None
            [led] = leading.partitions.led()
            assert led.log.end_offset == RECORDS

    asyncio.run(asyncio.wait_for(scenario(), SECONDS_MAX))

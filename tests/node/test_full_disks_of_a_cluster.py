"""The disk of one node of a cluster is full: nothing acked is lost, the others go on, and the node
is whole again once there is room. The metadata are elsewhere: a voter that cannot store its vote
ends, as in Apache Kafka.
"""

import asyncio
import errno
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.client.network.cluster import Cluster
from penstock.client.produce.producer import Producer
from penstock.metadata.image.topic import PartitionImage
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.limit import KIB, MIB
from penstock.model.offset import Offset
from penstock.records.iterate import records_of
from penstock.replication.replica import Replica
from penstock.world.real import real_world
from rig.node_cluster import NodeCluster, node_cluster
from rig.small_disk import small_disk

TOPIC = "orders"
PARTITIONS = 3
NODES = (1, 2, 3)
DISK_BYTES = 24 * MIB
VALUE_BYTES = 20 * KIB
SECONDS_MAX = 120
LINES_MAX = 20  # in the time that this takes; it is tried many times a second
SETTINGS = {
    "min_insync_replicas": "2",
    "replica_lag_time_max_ms": "1500",
    "replica_fetch_backoff_ms": "100",
    "broker_heartbeat_interval_ms": "200",
}


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[dict[int, Path]]:
    """A small disk for each node, by its number."""
    with ExitStack() as mounted:
        yield {
            node: mounted.enter_context(
                small_disk(tmp_path / f"disk-{node}", size_bytes=DISK_BYTES)
            )
            for node in NODES
        }


def fill(disk: Path) -> Path:
    """Takes all the room there is."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size_bytes in (MIB, 4 * KIB, 1):
            try:
                while True:
                    file.write(bytes(size_bytes))
            except OSError as error:
                assert error.errno == errno.ENOSPC
    return ballast


def values(start: int, end: int) -> list[bytes]:
    return [(b"%d " % number).ljust(VALUE_BYTES, b".") for number in range(start, end)]


async def produce(cluster: NodeCluster, through: int, sent: list[bytes], *, partition: int) -> None:
    world = real_world(inline=True)
    async with (
        Cluster(world.network, world.clock, [cluster.address(through)]) as clients,
        Producer(clients) as producer,
    ):
        for value in sent:
            await producer.send(TOPIC, value, partition=partition)


def metadata_of(cluster: NodeCluster, node: int, partition: int) -> PartitionImage:
    return cluster.inside(node).local.image.topics_by_name[TOPIC].partitions[partition]


def replica(cluster: NodeCluster, node: int, partition: int) -> Replica:
    broker = cluster.inside(node).broker
    assert broker is not None
    found = broker.partitions.replica(TopicPartition(TOPIC, partition))
    assert found is not None
    return found


def stored(cluster: NodeCluster, node: int, partition: int) -> list[bytes]:
    return [
        bytes(record.value or b"")
        for batch in replica(cluster, node, partition).log.batches_from(Offset(0))
        for record in records_of(batch)
    ]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - several nodes are asked
        await asyncio.sleep(0.02)


async def led_beside_the_controller(cluster: NodeCluster) -> tuple[int, int]:
    """A partition, and its leader, which is not the active controller."""
    await cluster.create_topic(TOPIC, through=1, partitions=PARTITIONS, replicas=3)
    await cluster.until(lambda image: TOPIC in image.topics_by_name)
    active = await cluster.active()
    for partition in range(PARTITIONS):
        leader = metadata_of(cluster, active, partition).leader
        if leader is not None and leader != active:
            return partition, int(leader)
    raise AssertionError("the active controller leads everything")


def all_in_sync(cluster: NodeCluster, node: int, partition: int) -> bool:
    return set(metadata_of(cluster, node, partition).isr) == set(NODES)


def full_lines(caplog: pytest.LogCaptureFixture, disk: Path) -> list[str]:
    return [one for one in caplog.messages if "full=true" in one and str(disk) in one]


def test_a_follower_whose_disk_is_full_leaves_the_in_sync_set_and_comes_back(
    tmp_path: Path, disks: Mapping[int, Path], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with node_cluster(tmp_path / "cluster", disks=disks, **SETTINGS) as cluster:
            partition, leader = await led_beside_the_controller(cluster)
            active = await cluster.active()
            [follower] = [node for node in NODES if node not in (leader, active)]
            sent = values(0, 60)
            await produce(cluster, active, sent[:10], partition=partition)
            ballast = fill(disks[follower])
            await produce(cluster, active, sent[10:], partition=partition)
            await until(lambda: NodeId(follower) not in metadata_of(cluster, leader, partition).isr)
            assert replica(cluster, follower, partition).log.end_offset < len(sent)
            ballast.unlink()
            await until(lambda: all_in_sync(cluster, leader, partition))
            await until(lambda: stored(cluster, follower, partition) == sent)
            assert stored(cluster, leader, partition) == sent
            assert 1 <= len(full_lines(caplog, disks[follower])) <= LINES_MAX

    asyncio.run(asyncio.wait_for(scenario(), SECONDS_MAX))


def test_a_leader_whose_disk_is_full_refuses_and_goes_on_when_there_is_room(
    tmp_path: Path, disks: Mapping[int, Path], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with node_cluster(tmp_path / "cluster", disks=disks, **SETTINGS) as cluster:
            partition, leader = await led_beside_the_controller(cluster)
            active = await cluster.active()
            sent = values(0, 60)
            await produce(cluster, active, sent[:10], partition=partition)
            ballast = fill(disks[leader])
            sending = asyncio.ensure_future(
                produce(cluster, active, sent[10:], partition=partition)
            )
            await until(lambda: bool(full_lines(caplog, disks[leader])))
            assert not sending.done()
            ballast.unlink()
            await sending
            await until(lambda: all_in_sync(cluster, active, partition))
            for node in NODES:
                await until(lambda node=node: stored(cluster, node, partition) == sent)
            assert len(full_lines(caplog, disks[leader])) <= LINES_MAX

    asyncio.run(asyncio.wait_for(scenario(), SECONDS_MAX))

"""A broker of which one log directory fails goes on with the others; others lead the rest."""

import asyncio

import pytest

from penstock.client.admin.admin import Admin, NewTopic
from penstock.client.network.errors import Refused
from penstock.client.produce.producer import Producer
from penstock.model.identity import NodeId, TopicPartition
from penstock.replication.partition import Partition
from penstock.sim.disk import SimDisk
from penstock.sim.sim_node import SimNode
from penstock.world.errors import DiskError
from rig.machines import Machines, address
from rig.one_controller import BROKERS, start_nodes

ORDERS = "orders"
WAIT_S = 60


def leader_of(machines: Machines, index: int) -> NodeId | None:
    parts = machines.nodes["node-1"].broker
    assert parts is not None
    return parts.local.image.topics_by_name[ORDERS].partitions[index].leader


async def until_led_by(machines: Machines, index: int, node_id: NodeId) -> None:
    async with asyncio.timeout(WAIT_S):
        while leader_of(machines, index) != node_id:  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.05)


def fail_directory_of(node: SimNode, index: int) -> None:
    assert node.broker is not None
    assert node.broker.broker is not None
    partitions = node.broker.broker.partitions
    led = partitions.find(ORDERS, index)
    assert isinstance(led, Partition), led
    path = led.log.directory.rpartition("/")[0]
    partitions.take_offline(path, DiskError(path, "Input/output error"))


def test_acks_go_on_when_the_disk_of_a_leader_fails() -> None:
    async def scenario(machines: Machines) -> None:
        await start_nodes(machines, log_dirs="/data/a,/data/b", metadata_log_dir="/data/m")
        bootstrap = [address(name) for name in BROKERS]
        async with machines.client("client", bootstrap) as cluster, Producer(cluster) as producer:
            new = NewTopic(name=ORDERS, partitions=4, replicas=2)
            assert not isinstance((await Admin(cluster).create_topics([new]))[ORDERS], Refused)
            for index in range(4):
                await (await producer.send(ORDERS, b"before", partition=index))
            led = [index for index in range(4) if leader_of(machines, index) == NodeId(2)]
            homes = {
                index: machines.nodes[BROKERS[0]].logs[TopicPartition(ORDERS, index)].directory
                for index in range(4)
            }
            lost = led[0]
            fail_directory_of(machines.nodes[BROKERS[0]], lost)
            await until_led_by(machines, lost, NodeId(3))
            for index in range(4):
                await (await producer.send(ORDERS, b"after", partition=index))
            kept = [
                index
                for index in led
                if homes[index].rpartition("/")[0] != homes[lost].rpartition("/")[0]
            ]
            assert [leader_of(machines, index) for index in kept] == [NodeId(2)] * len(kept)

    Machines().run(scenario)


def test_others_lead_what_is_in_a_directory_where_no_log_can_be_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker leads new partitions from its other directory."""
    make_directory = SimDisk.make_directory

    async def scenario(machines: Machines) -> None:
        await start_nodes(machines, log_dirs="/data/a,/data/b", metadata_log_dir="/data/m")
        node = machines.nodes[BROKERS[0]]

        def make_or_fail(disk: SimDisk, path: str) -> None:
            if disk.file_system is node.host.file_system and path.startswith("/data/b/"):
                raise DiskError(path, "Input/output error")
            make_directory(disk, path)

        bootstrap = [address(name) for name in BROKERS]
        async with machines.client("client", bootstrap) as cluster, Producer(cluster) as producer:
            new = NewTopic(name=ORDERS, partitions=4, replicas=2)
            assert not isinstance((await Admin(cluster).create_topics([new]))[ORDERS], Refused)
            for index in range(4):
                await (await producer.send(ORDERS, b"before", partition=index))
            lost = [
                index
                for index in range(4)
                if node.logs[TopicPartition(ORDERS, index)].directory.startswith("/data/b/")
                and leader_of(machines, index) == NodeId(2)
            ]
            assert lost
            monkeypatch.setattr(SimDisk, "make_directory", make_or_fail)
            new = NewTopic(name="later", partitions=4, replicas=2)
            assert not isinstance((await Admin(cluster).create_topics([new]))["later"], Refused)
            for index in lost:
                await until_led_by(machines, index, NodeId(3))
            for index in range(4):
                await (await producer.send(ORDERS, b"after", partition=index))
                await (await producer.send("later", b"after", partition=index))
            later = [node.logs[TopicPartition("later", index)] for index in range(4)]
            assert all(log.directory.startswith("/data/a/") for log in later)

    Machines().run(scenario)

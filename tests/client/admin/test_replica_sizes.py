"""Sizes of replicas are asked of their brokers alone, by the names of their partitions."""

from typing import Any

from penstock.client.admin.replica_sizes import replica_sizes
from penstock.client.network.bootstrap import parse_addresses
from penstock.client.network.cluster import AnyReply, Cluster
from penstock.model.identity import NodeId, TopicPartition
from penstock.testing import running_broker
from penstock.wire.definition import Message
from penstock.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from penstock.world.clock import RealClock
from penstock.world.tcp import TcpNetwork
from rig.client_cluster import run_with_cluster
from rig.reassigning import create_on


class ClusterSeen(Cluster):
    """Keeps what it asked about log directories, and whom."""

    asked: dict[NodeId, DescribeLogDirsRequest]

    async def ask(
        self, node: NodeId, request: Message, reply_type: type[AnyReply], version: int | None = None
    ) -> AnyReply:
        if isinstance(request, DescribeLogDirsRequest):
            self.asked[node] = request
        return await super().ask(node, request, reply_type, version)


def test_two_of_three_brokers_are_asked_for_one_partition() -> None:
    with running_broker(nodes=3) as broker:
        create_on(broker.nodes[1], "named", [[1, 2], [2, 3]])

        async def work(_: Cluster) -> tuple[Any, dict[NodeId, DescribeLogDirsRequest]]:
            addresses = parse_addresses(broker.bootstrap)
            async with ClusterSeen(TcpNetwork(), RealClock(), addresses) as cluster:
                cluster.asked = {}
                await cluster.refresh()
                place = TopicPartition("named", 0)
                sizes = await replica_sizes(cluster, {place: (NodeId(1), NodeId(2))})
                return sizes, cluster.asked

        sizes, asked = run_with_cluster(broker.bootstrap, work)
    assert sizes == {TopicPartition("named", 0): {1: 0, 2: 0}}
    assert sorted(asked) == [1, 2]
    for request in asked.values():
        [topic] = request.topics or []
        assert (topic.topic, topic.partitions) == ("named", [0])

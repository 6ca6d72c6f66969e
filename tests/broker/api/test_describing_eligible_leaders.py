"""DescribeTopicPartitions tells who may lead a partition besides those in sync (KIP-966)."""

from penstock.broker.api.describe_topic_partitions import API
from penstock.metadata.image.image import Image
from penstock.model.identity import NodeId
from penstock.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from rig.control import Control, run_with
from rig.memory_disk import MemoryDisk
from rig.replicated_topic import add_topic, partition_of, replicated

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


Sets = tuple[list[int], list[int] | None, list[int] | None]


def described(image: Image) -> dict[str | None, Sets]:
    """Who is in sync, eligible, and last known to have led, in partition 0 of each topic."""

    async def scenario(control: Control) -> DescribeTopicPartitionsResponse:
        control.services.image = image
        request = DescribeTopicPartitionsRequest()
        return await control.ask(API, request, DescribeTopicPartitionsResponse)

    reply = run_with(MemoryDisk(), scenario)
    firsts = {topic.name: topic.partitions[0] for topic in reply.topics}
    return {
        name: (first.isr_nodes, first.eligible_leader_replicas, first.last_known_elr)
        for name, first in firsts.items()
    }


def test_a_reply_tells_eligible_replicas_and_the_last_known_leader() -> None:
    cluster = replicated(ONE, TWO, THREE)
    add_topic(cluster, "lone", TWO)
    assert described(cluster.image) == {"orders": ([1, 2, 3], [], []), "lone": ([2], [], [])}

    # A process that was killed may have lost records: it is not eligible, but was the last leader.
    cluster.register(TWO, incarnation=1)
    cluster.fence(THREE)
    assert (partition_of(cluster).elr, partition_of(cluster, "lone").elr) == ((THREE,), ())
    assert described(cluster.image) == {"orders": ([1], [3], []), "lone": ([], [], [2])}
    cluster.fence(ONE)
    assert described(cluster.image)["orders"] == ([], [1, 3], [1])

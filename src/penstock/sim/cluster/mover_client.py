"""A client of a simulated cluster that moves partitions between its brokers while faults strike.

It asks for other replicas of partitions that nobody deletes, changes its mind while a reassignment
runs, and cancels some, each time through another node. Each partition has as many replicas in the
end as it had before.
"""

import asyncio
from contextlib import AsyncExitStack

from penstock.client.network.cluster import Cluster
from penstock.client.network.errors import ClientError, error_code
from penstock.groups.partitioning import OFFSETS_TOPIC
from penstock.metadata.image.image import Image
from penstock.model.error import ErrorCode
from penstock.model.topic_name import TRANSACTION_TOPIC
from penstock.sim.cluster.clients import ADMIN_RULES, Client, ThroughOneNode
from penstock.sim.cluster.layout import address
from penstock.sim.cluster.scenario import ORDERS, PAYMENTS
from penstock.sim.errors import Violation
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.world.ports import World

TOPICS = (ORDERS, ORDERS, PAYMENTS, OFFSETS_TOPIC, TRANSACTION_TOPIC)
CANCELLED = 0.2  # of all requests
TIMEOUT_MS = 4_000
# An answer that took nearly as long need not be seen in the node's image.
SHOWN_US_MAX = TIMEOUT_MS * 1000 * 9 // 10
REFUSALS_OF_CANCELS = (
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,  # only the new replicas have all records
)
# The node has nobody to ask, or the controller was replaced meanwhile.
NOBODY_DECIDES = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)


class MoverClient(Client):
    """The only one who moves partitions."""

    async def main(self, world: World) -> None:
        async with AsyncExitStack() as stack:
            nodes = {
                host: await stack.enter_async_context(
                    ThroughOneNode(world.network, world.clock, [address(host)], rules=ADMIN_RULES)
                )
                for host in self.hosts
            }
            while not self.ending:
                host = self.chance.choice(self.hosts)
                try:
                    await self._move_one(host, nodes[host])
                except ClientError as error:
                    self.note(f"through {host}: {error}")
                await asyncio.sleep(self.chance.uniform(0.1, 1.5))

    async def _move_one(self, host: str, cluster: Cluster) -> None:
        image = self.view.image_of(host)
        topic = None if image is None else image.topics_by_name.get(self.chance.choice(TOPICS))
        if image is None or topic is None:
            return
        index = self.chance.randrange(len(topic.partitions))
        target: list[int] | None = None
        if self.chance.random() >= CANCELLED:
            nodes: list[int] = sorted(image.brokers)
            count = min(topic.partitions[index].replication_factor, len(nodes))
            target = self.chance.sample(nodes, count)
        asked = ReassignableTopic(
            name=topic.name,
            partitions=[ReassignablePartition(partition_index=index, replicas=target)],
        )
        asked_us = self.view.now_us()
        reply = await cluster.ask_controller(
            AlterPartitionReassignmentsRequest(topics=[asked], timeout_ms=TIMEOUT_MS),
            AlterPartitionReassignmentsResponse,
        )
        [answer] = reply.responses[0].partitions
        what = f"{topic.name}-{index} to {target} through {host}"
        code = error_code(answer.error_code)
        if code is ErrorCode.NONE:
            self.history.admin_acks += 1
            self.note(f"moves {what}")
            if target is not None and self.view.now_us() - asked_us < SHOWN_US_MAX:
                self._require_shown(host, topic.name, index, target)
            return
        self.note(f"cannot move {what}: {code.name}")
        if code not in NOBODY_DECIDES and (target is not None or code not in REFUSALS_OF_CANCELS):
            raise Violation("answers", f"{what} is refused: {code.name} {answer.error_message}")

    def _require_shown(self, host: str, topic: str, index: int, target: list[int]) -> None:
        image: Image | None = self.view.image_of(host)
        if image is None:
            return
        partition = image.topics_by_name[topic].partitions[index]
        stay = [node for node in partition.replicas if node not in partition.removing_replicas]
        if stay != target:
            raise Violation(
                "image",
                f"{topic}-{index} was moved to {target} through {host}, whose image has {stay}",
            )

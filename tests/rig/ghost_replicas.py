"""What replicas hold while a controller decides about them: a model without network and disks.

Nodes act by the image that they knew when they last learned of one, and leaders by replies that
tell of a larger in-sync set in their epoch. A leader appends records, its followers copy its log,
and it acknowledges what all in-sync replicas have, those that are on their way into the set
included, as long as there are as many as `min.insync.replicas` asks for. Restarts may lose records,
and a node that knows that its replica was removed has deleted it. The ghost knows all that was
acknowledged.

`check` holds after every step:

1. Every member of the in-sync set, and everyone eligible, has all that was acknowledged.
2. The leader is in sync. If nobody is, the last leader is known.
3. Nobody is eligible who is in sync, nor while enough replicas are in sync.
4. Without a leader, nobody lives who is in sync, or, if nobody is, eligible.
5. Two processes never lead in one leader epoch.
6. A partition loses acknowledged records only by an unclean election, or when its last leader has
   lost them and nobody else was eligible; then its leader is marked RECOVERING.
7. No reassignment runs whose whole target is in sync, and one of which can lead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.metadata.controller.elections import BalanceLeaders, ElectionType
from penstock.metadata.image.image import Image
from penstock.metadata.image.topic import LeaderRecovery, PartitionImage
from penstock.metadata.topic_rules import MIN_IN_SYNC, min_in_sync
from penstock.model.configs import Operation, ResourceKind
from penstock.model.identity import NodeId
from penstock.wire.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from penstock.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.wire.messages.elect_leaders import ElectedTopicPartitions, ElectLeadersRequest
from penstock.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.wire.messages.unregister_broker import UnregisterBrokerRequest
from rig.cluster import Cluster

TOPIC = "orders"


@dataclass
class Leading:
    """What a leader knows of its followers, in one leader epoch."""

    epoch: int
    ends: dict[NodeId, tuple[int, int]] = field(default_factory=dict)  # end, broker epoch
    pending: tuple[NodeId, ...] = ()  # in-sync set that it has asked for
    # In-sync set and partition epoch that it was told before the metadata: a set that has grown.
    confirmed: tuple[tuple[NodeId, ...], int] | None = None


class GhostReplicas:
    """One partition on all nodes of a cluster, or on some of them."""

    def __init__(self, nodes: int, in_sync_min: int, *, replicas: int | None = None) -> None:
        self.cluster = Cluster(nodes, min_insync_replicas=str(in_sync_min))
        self.cluster.create(TOPIC, replicas=replicas or nodes)
        self.nodes = [NodeId(node) for node in range(1, nodes + 1)]
        self.logs: dict[NodeId, list[int]] = {node: [] for node in self.nodes}
        self.known: dict[NodeId, Image] = dict.fromkeys(self.nodes, self.cluster.image)
        self.process = dict.fromkeys(self.nodes, 0)
        self.leading: dict[NodeId, Leading] = {}
        self.acked: list[int] = []
        self._records = 0
        self._led: dict[int, tuple[NodeId, int]] = {}

    @property
    def partition(self) -> PartitionImage:
        return self.cluster.topic(TOPIC).partitions[0]

    def check(self) -> None:
        partition = self.partition
        brokers = self.cluster.image.brokers
        for node in (*partition.isr, *partition.elr):
            assert self.logs[node][: len(self.acked)] == self.acked, (1, node, partition)
        assert partition.leader is None or partition.leader in partition.isr, (2, partition)
        assert partition.isr or partition.last_known_elr, (2, partition)
        assert not set(partition.isr) & set(partition.elr), (3, partition)
        in_sync_min = min_in_sync(self.cluster.image, TOPIC, replicas=partition.replica_count)
        assert len(partition.isr) < in_sync_min or not partition.elr, (3, partition)
        candidates = partition.isr or partition.elr
        living = [node for node in candidates if node in brokers and brokers[node].is_usable]
        assert partition.leader is not None or not living, (4, partition)
        if partition.is_reassigned and partition.leader is not None:
            target = set(partition.replicas) - set(partition.removing_replicas)
            able = [node for node in target if node in living]
            recovering = partition.leader_recovery_state == LeaderRecovery.RECOVERING
            assert recovering or not able or not target <= set(partition.isr), (7, partition)
        if partition.leader is not None:
            process = (partition.leader, brokers[partition.leader].epoch)
            assert self._led.setdefault(partition.leader_epoch, process) == process, (5, partition)

    # What replicas do

    def learn(self, node: NodeId) -> None:
        """The node follows the metadata."""
        self.known[node] = self.cluster.image
        view = self.view(node)
        if node not in view.replicas:
            self.logs[node] = []
        leading = self.leading.get(node)
        if view.leader != node or not self._is_registered(node):
            self.leading.pop(node, None)
        elif leading is None or leading.epoch != view.leader_epoch:
            self.leading[node] = Leading(view.leader_epoch)
        else:
            leading.pending, leading.confirmed = (), None

    def view(self, node: NodeId) -> PartitionImage:
        """The partition as the node knows it."""
        return self.known[node].topics_by_name[TOPIC].partitions[0]

    def append(self, node: NodeId) -> None:
        if node in self.leading:
            self._records += 1
            self.logs[node].append(self._records)
            self.acknowledge(node)

    def copy(self, leader: NodeId, follower: NodeId) -> None:
        """The follower fetches, if both take this one for the leader in the same epoch."""
        leading = self.leading.get(leader)
        view = self.view(follower)
        if leading is None or leader == follower or not self._is_registered(follower):
            return
        if (view.leader, view.leader_epoch) != (leader, leading.epoch):
            return
        if follower not in view.replicas:
            return
        self.logs[follower] = list(self.logs[leader])
        epoch = self.cluster.image.brokers[follower].epoch
        leading.ends[follower] = (len(self.logs[follower]), epoch)
        self.acknowledge(leader)

    def acknowledge(self, leader: NodeId) -> None:
        leading, view = self.leading[leader], self.view(leader)
        in_sync_min = min_in_sync(self.known[leader], TOPIC, replicas=view.replica_count)
        isr, _ = leading.confirmed or (view.isr, 0)
        if len(isr) < in_sync_min or leader not in isr:
            return
        members = {*isr, *leading.pending} - {leader}
        end = min(
            (leading.ends.get(member, (0, 0))[0] for member in members),
            default=len(self.logs[leader]),
        )
        if end > len(self.acked):
            assert self.logs[leader][: len(self.acked)] == self.acked, (1, leader, view)
            self.acked = self.logs[leader][:end]

    def alter(self, leader: NodeId, wanted: set[NodeId]) -> None:
        """The leader asks for an in-sync set, as far as followers have caught up."""
        leading = self.leading.get(leader)
        view = self.view(leader)
        if leading is None or leading.pending or not self._is_registered(leader):
            return
        known, partition_epoch = leading.confirmed or (view.isr, view.partition_epoch)
        joined = {
            node
            for node in set(view.replicas) & wanted - set(known)
            if leading.ends.get(node, (-1, 0))[0] >= len(self.logs[leader])
        }
        isr = tuple(sorted((set(known) & wanted) | joined | {leader}))
        brokers = self.cluster.image.brokers
        leading.pending = isr
        reply = self.cluster.ask(
            AlterPartitionRequest(
                broker_id=leader,
                broker_epoch=brokers[leader].epoch,
                topics=[
                    AlterPartitionTopic(
                        topic_id=self.cluster.topic(TOPIC).topic_id,
                        partitions=[
                            AlterPartitionData(
                                partition_index=0,
                                leader_epoch=leading.epoch,
                                partition_epoch=partition_epoch,
                                leader_recovery_state=LeaderRecovery.RECOVERED,
                                new_isr_with_epochs=[
                                    BrokerState(
                                        broker_id=node,
                                        broker_epoch=brokers[leader].epoch
                                        if node == leader
                                        else leading.ends.get(node, (0, -1))[1],
                                    )
                                    for node in isr
                                ],
                            )
                        ],
                    )
                ],
            )
        )
        assert isinstance(reply, AlterPartitionResponse)
        [told] = reply.topics[0].partitions
        if (
            told.error_code == 0
            and told.leader_epoch == leading.epoch
            and set(told.isr) >= {*known}
        ):
            confirmed = tuple(NodeId(node) for node in told.isr)
            leading.pending, leading.confirmed = (), (confirmed, told.partition_epoch)

    # What becomes of brokers

    def restart(self, node: NodeId, *, lost: int) -> None:
        """A new process, which has lost so many records of its log, or none and says so."""
        before = self.cluster.image.brokers.get(node)
        if lost:
            self.logs[node] = self.logs[node][:-lost]
        self.process[node] += 1
        self.leading.pop(node, None)
        partition = self.partition
        self.cluster.sessions.connection_lost(f"from {node}")
        self.cluster.register(
            node,
            incarnation=self.process[node],
            previous_broker_epoch=None if lost or before is None else before.epoch,
        )
        self.known[node] = self.cluster.image
        self._may_lose(partition, gone=node)

    def heartbeat(self, node: NodeId, *, want_shut_down: bool = False) -> None:
        if node in self.cluster.image.brokers:
            partition = self.partition
            self.cluster.beat(node, want_shut_down=want_shut_down)
            self._may_lose(partition)

    def fence(self, node: NodeId) -> None:
        if node in self.cluster.image.brokers:
            self.cluster.fence(node)

    def unregister(self, node: NodeId) -> None:
        if node in self.cluster.image.brokers:
            self.cluster.ask(UnregisterBrokerRequest(broker_id=node))

    # What operators do

    def set_in_sync_min(self, value: int, *, of_topic: bool) -> None:
        config = AlterableConfig(name=MIN_IN_SYNC, config_operation=Operation.SET, value=str(value))
        resource = AlterConfigsResource(
            resource_type=ResourceKind.TOPIC if of_topic else ResourceKind.BROKER,
            resource_name=TOPIC if of_topic else "",
            configs=[config],
        )
        self.cluster.ask(IncrementalAlterConfigsRequest(resources=[resource]))

    def reassign(self, target: Sequence[NodeId] | None) -> None:
        """To other nodes; None cancels it."""
        replicas = None if target is None else list(target)
        partition = ReassignablePartition(partition_index=0, replicas=replicas)
        topic = ReassignableTopic(name=TOPIC, partitions=[partition])
        self.cluster.ask(AlterPartitionReassignmentsRequest(topics=[topic]))

    def elect(self, kind: ElectionType) -> None:
        partition = self.partition
        named = [ElectedTopicPartitions(topic=TOPIC, partitions=[0])]
        self.cluster.ask(ElectLeadersRequest(election_type=kind, topic_partitions=named))
        self._may_lose(partition, uncleanly=kind == ElectionType.UNCLEAN)

    def balance(self) -> None:
        self.cluster.ask(BalanceLeaders())

    def _is_registered(self, node: NodeId) -> bool:
        """The process of the node is the one that the cluster knows, as far as the node knows."""
        broker = self.cluster.image.brokers.get(node)
        return broker is not None and broker.incarnation[1] == self.process[node]

    def _may_lose(
        self, before: PartitionImage, *, gone: NodeId | None = None, uncleanly: bool = False
    ) -> None:
        """If the new leader lacks acknowledged records, the ghost forgets them, if that may be."""
        after = self.partition
        if after.leader is None or after.leader_epoch == before.leader_epoch:
            return
        if self.logs[after.leader][: len(self.acked)] == self.acked:
            return
        assert after.leader_recovery_state == LeaderRecovery.RECOVERING, (6, before, after)
        nobody = not set(before.isr) | set(before.elr)
        is_last = before.last_known_elr == (after.leader,)
        assert uncleanly or (nobody and is_last), (6, before, after, gone)
        self.acked = self.acked[: _common(self.acked, self.logs[after.leader])]
        assert (after.isr, after.elr) == ((after.leader,), ()), (6, after)


def _common(one: list[int], other: list[int]) -> int:
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
